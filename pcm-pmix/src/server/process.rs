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
    rules::{Arrival, Effect, Event, Machine, Mail, NodeMessage, Ticket},
};
use pcm_proto::{
    ids::NodeName,
    pmix::{Environment, Namespace, Order, Report, Serve},
};
use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs,
    os::unix::ffi::OsStringExt,
    path::PathBuf,
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::{Duration, Instant},
};

/// How long the first order may take.
const FIRST_ORDER_MAX: Duration = Duration::from_secs(30);

/// How long a parent may be away: one that is killed is started again within ten seconds, or given up.
const AWAY_MAX: Duration = Duration::from_secs(30);

/// The longest wait, so that the watchdog sees moves.
const TURN_MAX: Duration = Duration::from_secs(1);

/// Serves until the parent says so or closes the link; the exit code.
pub fn run() -> i32 {
    let reports = match Reports::begin() {
        Ok(reports) => reports,
        Err(error) => {
            eprintln!("pcm-pmix: cannot report: {error}");
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
    let order = first_order(&inputs, &watchdog, reports)?;
    let Some(order) = order else { return Ok(()) };
    let library = Library::start(&order, to_process)?;
    let mut server = Server {
        machine: Machine::new(&order),
        own: order.node.clone(),
        library,
        reports,
        begun: Instant::now(),
        away_since: None,
        last_ticket: 0,
        waiting: BTreeMap::new(),
        environments: BTreeMap::new(),
        mail: Mail::default(),
    };
    let outcome = server.turn_all(&inputs, &watchdog);
    let is_left = server.away_since.is_some();
    server.library.stop();
    if is_left {
        // The parent would remove it.
        let folder = PathBuf::from(OsString::from_vec(order.folder));
        fs::remove_dir_all(&folder).map_err(|error| format!("cannot remove {}: {error}", folder.display()))?;
    }
    outcome
}

/// Nothing where the parent closed the link before it gave an order.
fn first_order(inputs: &Receiver<Input>, watchdog: &Watchdog, reports: &Reports) -> Result<Option<Serve>, String> {
    let begun = Instant::now();
    while begun.elapsed() < FIRST_ORDER_MAX {
        watchdog.moved();
        match inputs.recv_timeout(TURN_MAX) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(Input::Opened(link)) => reports.open(link)?,
            Ok(Input::Order(Order::Serve(serve))) => return Ok(Some(serve)),
            Ok(Input::Order(Order::Stop) | Input::Closed) => return Ok(None),
            other => return Err(format!("the first order was not to serve, but {other:?}")),
        }
    }
    Err(format!("no order came within {} s", FIRST_ORDER_MAX.as_secs()))
}

struct Server<'a> {
    machine: Machine,
    own: NodeName,
    library: Library,
    reports: &'a Reports,
    begun: Instant,
    /// When the parent closed the link.
    away_since: Option<Instant>,
    last_ticket: u64,
    /// Calls of libpmix that have no answer yet.
    waiting: BTreeMap<Ticket, Waiting>,
    /// What the processes here of each registered namespace need.
    environments: BTreeMap<String, Vec<Environment>>,
    mail: Mail,
}

impl Server<'_> {
    fn turn_all(&mut self, inputs: &Receiver<Input>, watchdog: &Watchdog) -> Result<(), String> {
        self.say_all()?;
        loop {
            watchdog.moved();
            if self.away_since.is_some_and(|since| since.elapsed() >= AWAY_MAX) {
                return Err(format!("the parent has not come back for {} s", AWAY_MAX.as_secs()));
            }
            let now = self.now();
            let due = self.machine.due().map_or(TURN_MAX, |due| due.saturating_sub(now));
            match inputs.recv_timeout(due.min(TURN_MAX)) {
                Err(RecvTimeoutError::Timeout) => self.handle(Event::Later)?,
                Err(RecvTimeoutError::Disconnected) | Ok(Input::Order(Order::Stop)) => return Ok(()),
                Ok(Input::Opened(link)) => {
                    self.away_since = None;
                    self.reports.open(link)?;
                }
                Ok(Input::Closed) => self.away_since = Some(Instant::now()),
                Ok(Input::Broken { reason }) => return Err(format!("an order cannot be read: {reason}")),
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

    /// All that a parent may have missed, or has forgotten since. What a namespace needs is said when it is registered.
    fn say_all(&mut self) -> Result<(), String> {
        let version = self.library.version.clone();
        self.reports.send(&Report::Ready { version })?;
        for report in self.machine.standing() {
            self.reports.send(&report)?;
        }
        self.mail.late().iter().try_for_each(|node| self.say_again(node))
    }

    fn order(&mut self, order: Order) -> Result<(), String> {
        let event = match order {
            Order::Serve(_) => return self.say_all(),
            Order::Register(namespace) => return self.register(namespace),
            Order::Forget { namespace } => {
                self.environments.remove(&namespace);
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
            Order::FromNode { node, number, message } => return self.hear(node, number, &message),
            Order::Heard { node, number } => {
                self.mail.on_heard(&node, number);
                return Ok(());
            }
            Order::Linked { node } => return self.say_again(&node),
            Order::Stop => return Ok(()),
        };
        self.handle(event)
    }

    fn register(&mut self, namespace: Namespace) -> Result<(), String> {
        let name = namespace.name.clone();
        if !self.environments.contains_key(&name) {
            match self.library.register(&namespace) {
                Ok(environments) => _ = self.environments.insert(name.clone(), environments),
                Err(reason) => return self.refuse(format!("register {name}"), reason),
            }
            self.handle(Event::Registered(namespace))?;
        }
        let environments = self.environments.get(&name).cloned().unwrap_or_default();
        self.reports.send(&Report::Registered {
            namespace: name,
            environments,
        })
    }

    fn hear(&mut self, node: NodeName, number: u64, message: &[u8]) -> Result<(), String> {
        match self.mail.on_letter(&node, number) {
            Arrival::Early => return Ok(()),
            Arrival::Known => {}
            Arrival::New => {
                let message = link::opened(message)?;
                let node = node.clone();
                self.handle(Event::FromNode { node, message })?;
            }
        }
        self.reports.send(&Report::Heard { node, number })
    }

    fn send(&mut self, node: NodeName, message: &NodeMessage) -> Result<(), String> {
        let message = link::sealed(message)?;
        let Some(number) = self.mail.send(&node, message.clone()) else {
            return Err(format!(
                "node {} cannot reach node {node}, where other ranks are",
                self.own
            ));
        };
        self.reports.send(&Report::ToNode { node, number, message })
    }

    fn say_again(&self, node: &NodeName) -> Result<(), String> {
        for (number, message) in self.mail.again(node) {
            let node = node.clone();
            self.reports.send(&Report::ToNode { node, number, message })?;
        }
        Ok(())
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
                Effect::Tell { node, message } => self.send(node, &message)?,
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
