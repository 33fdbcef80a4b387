//! The process's own thread: inputs to events, effects to calls. Must never wait longer than a second for anything but
//! libpmix.

use super::{
    answers::Waiting,
    library::Library,
    link::{self, Input, Reports},
    watchdog::Watchdog,
};
use crate::{
    names::Process,
    rules::{Effect, Event, Machine, Ticket},
};
use pcm_proto::pmix::{Order, Report, Serve};
use std::{
    collections::BTreeMap,
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::{Duration, Instant},
};

/// How long the first order may take.
const FIRST_ORDER_MAX: Duration = Duration::from_secs(30);

/// The longest wait, so that the watchdog sees moves.
const TURN_MAX: Duration = Duration::from_secs(1);

/// Serves until the parent says so or closes the link; the exit code.
pub fn run() -> i32 {
    let reports = match Reports::take() {
        Ok(reports) => reports,
        Err(error) => {
            eprintln!("pcm-pmix: cannot use standard output: {error}");
            return 1;
        }
    };
    let outcome = serve(&reports);
    let code = match outcome {
        Ok(()) => 0,
        Err(reason) => {
            eprintln!("pcm-pmix: {reason}");
            // Said above already, where the parent does not read.
            _ = reports.send(&Report::Failed { reason });
            1
        }
    };
    reports.finish();
    code
}

fn serve(reports: &Reports) -> Result<(), String> {
    let watchdog = Watchdog::start().map_err(|error| error.to_string())?;
    let (to_process, inputs) = link::inputs();
    link::read_orders(to_process.clone()).map_err(|error| error.to_string())?;
    let order = first_order(&inputs, &watchdog)?;
    let Some(order) = order else { return Ok(()) };
    let library = Library::start(&order, to_process)?;
    reports.send(&Report::Ready {
        version: library.version.clone(),
    })?;
    let mut server = Server {
        machine: Machine::new(&order),
        library,
        reports,
        begun: Instant::now(),
        last_ticket: 0,
        waiting: BTreeMap::new(),
    };
    let outcome = server.turn_all(&inputs, &watchdog);
    server.library.stop();
    outcome
}

/// Nothing where the parent closed the link before it gave an order.
fn first_order(inputs: &Receiver<Input>, watchdog: &Watchdog) -> Result<Option<Serve>, String> {
    let begun = Instant::now();
    while begun.elapsed() < FIRST_ORDER_MAX {
        watchdog.moved();
        match inputs.recv_timeout(TURN_MAX) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(Input::Order(Order::Serve(serve))) => return Ok(Some(serve)),
            Ok(Input::Order(Order::Stop) | Input::Closed { reason: None }) => return Ok(None),
            other => return Err(format!("the first order was not to serve, but {other:?}")),
        }
    }
    Err(format!("no order came within {} s", FIRST_ORDER_MAX.as_secs()))
}

struct Server<'a> {
    machine: Machine,
    library: Library,
    reports: &'a Reports,
    begun: Instant,
    last_ticket: u64,
    /// Calls of libpmix that have no answer yet.
    waiting: BTreeMap<Ticket, Waiting>,
}

impl Server<'_> {
    fn turn_all(&mut self, inputs: &Receiver<Input>, watchdog: &Watchdog) -> Result<(), String> {
        loop {
            watchdog.moved();
            let now = self.now();
            let due = self.machine.due().map_or(TURN_MAX, |due| due.saturating_sub(now));
            match inputs.recv_timeout(due.min(TURN_MAX)) {
                Err(RecvTimeoutError::Timeout) => self.handle(Event::Later)?,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Ok(Input::Order(Order::Stop) | Input::Closed { reason: None }) => return Ok(()),
                Ok(Input::Closed { reason: Some(reason) }) => return Err(format!("an order cannot be read: {reason}")),
                Ok(Input::Order(order)) => self.order(order)?,
                Ok(Input::Fetched { number, outcome }) => self.handle(Event::Fetched { number, outcome })?,
                Ok(Input::Called { waiting, upcall }) => {
                    self.last_ticket += 1;
                    let ticket = Ticket(self.last_ticket);
                    self.waiting.insert(ticket, waiting);
                    self.handle(Event::Called { ticket, upcall })?;
                }
            }
        }
    }

    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    fn order(&mut self, order: Order) -> Result<(), String> {
        let event = match order {
            Order::Register(namespace) => {
                let name = namespace.name.clone();
                let report = match self.library.register(&namespace) {
                    Ok(environments) => Report::Registered {
                        namespace: name,
                        environments,
                    },
                    Err(reason) => return self.refuse(format!("register {name}"), reason),
                };
                self.handle(Event::Registered(namespace))?;
                return self.reports.send(&report);
            }
            Order::Forget { namespace } => {
                if let Err(reason) = self.library.forget(&namespace) {
                    self.refuse(format!("forget {namespace}"), reason)?;
                }
                Event::Forgotten { namespace }
            }
            Order::Ended { process } => {
                // What the process said before was reported before; its mates may end of what follows.
                let heard = process.clone();
                self.reports.send(&Report::Over { process: heard })?;
                Event::Ended { process }
            }
            Order::NodeLost { node } => Event::NodeLost { node },
            Order::SpawnAnswer { number, outcome } => Event::SpawnAnswer { number, outcome },
            Order::FromNode { node, message } => {
                let message = link::opened(&message)?;
                Event::FromNode { node, message }
            }
            Order::Serve(_) => return self.refuse("serve".to_owned(), "it serves already".to_owned()),
            Order::Stop => return Ok(()),
        };
        self.handle(event)
    }

    fn refuse(&self, order: String, reason: String) -> Result<(), String> {
        self.reports.send(&Report::Refused { order, reason })
    }

    fn handle(&mut self, event: Event) -> Result<(), String> {
        let now = self.now();
        for effect in self.machine.handle(now, event) {
            match effect {
                Effect::Answer { ticket, answer } => {
                    if let Some(waiting) = self.waiting.remove(&ticket) {
                        waiting.answer(answer);
                    }
                }
                Effect::Report(report) => self.reports.send(&report)?,
                Effect::Tell { node, message } => {
                    let message = link::sealed(&message)?;
                    self.reports.send(&Report::ToNode { node, message })?;
                }
                Effect::Announce { lost } => self.library.announce(&lost),
                Effect::Learn(namespace) => {
                    if let Err(reason) = self.library.register(&namespace) {
                        self.refuse(format!("learn {}", namespace.name), reason)?;
                    }
                }
                Effect::Fetch { number, process } => self.fetch(number, &process)?,
            }
        }
        Ok(())
    }

    fn fetch(&mut self, number: u64, process: &Process) -> Result<(), String> {
        match self.library.fetch(number, process) {
            Ok(()) => Ok(()),
            Err(status) => {
                let outcome = Err(status);
                self.handle(Event::Fetched { number, outcome })
            }
        }
    }
}
