//! What persons ask daemons, what they do with the answers, and rules about these.

use super::happening::Happening;
use super::machine::address;
use super::person::{Act, Ask, Asked, Change, layout_change};
use super::seen::Seen;
use super::simulation::Simulation;
use super::story::short;
use super::violation::Violation;
use pcm_core::node::event::{ControlFact, Event};
use pcm_core::node::requester::LinkId;
use pcm_proto::boot::{NodeSpec, Reach};
use pcm_proto::checkpoint::IntoFiles;
use pcm_proto::control::{ControlToDaemon, DaemonToControl, Stream};
use pcm_proto::ids::{JobId, NodeName, ProcessId};
use pcm_proto::job::{JobSpec, WorldShape};
use pcm_proto::keeper::ProcessKey;
use pcm_proto::layout::ModeWanted;
use pcm_proto::registered::Registered;

/// How often a terminal that has lost its job looks for it.
const TRIES_MAX: u32 = 100;
const TRY_EVERY: u64 = 400_000;

fn spec(program: usize, ranks: u32, is_detached: bool, restarts_max: u32) -> JobSpec {
    JobSpec {
        registered: Registered {
            shared_extents: vec![1 << 40],
            has_custom: program % 2 == 1,
            ..Registered::default()
        },
        name: format!("program {program}"),
        size: ranks,
        min: 1,
        max: 8,
        nodes: Vec::new(),
        per_node: None,
        commands: Vec::new(),
        policy: None,
        world: WorldShape::Job,
        program: b"/program".to_vec(),
        args: vec![program.to_string().into_bytes()],
        env: Vec::new(),
        cwd: "/".into(),
        bind: false,
        preload: false,
        mpi_settings: Vec::new(),
        detached: is_detached,
        restarts_max,
        method: None,
        spares: 0,
    }
}

impl Simulation {
    pub(super) fn on_act(&mut self, act: Act) {
        self.tell(|| format!("a person: {act:?}"));
        match act {
            Act::Run {
                program,
                ranks,
                is_detached,
                restarts_max,
                via,
            } => {
                let request = ControlToDaemon::Run(Box::new(spec(program, ranks, is_detached, restarts_max)));
                let asked = Asked::Job {
                    attaches: None,
                    is_detached,
                };
                self.ask(via, asked, request);
            }
            Act::Change { change, mode, via } => self.ask_for_change(change, mode, via),
            Act::Checkpoint { in_files, via } => {
                let into = in_files.then_some(IntoFiles::Usual);
                if let Some(job) = self.some_job() {
                    self.ask_once(via, ControlToDaemon::Checkpoint { job, into });
                }
            }
            Act::Kill { via } => {
                if let Some(job) = self.some_job() {
                    self.ask_once(via, ControlToDaemon::Kill { job });
                }
            }
            Act::Look { via } => {
                let request = match self.some_job().filter(|_| self.random.chance(0.5)) {
                    Some(job) => ControlToDaemon::Ps { job },
                    None if self.random.chance(0.5) => ControlToDaemon::Jobs,
                    None => ControlToDaemon::Nodes,
                };
                self.ask_once(via, request);
            }
            Act::Drain {
                machine,
                deadline_ms,
                via,
            } => {
                let node = self.machines[machine].name.clone();
                self.ask_once(via, ControlToDaemon::Drain { node, deadline_ms });
            }
            Act::Undrain { machine, via } => {
                let spec = NodeSpec {
                    name: self.machines[machine].name.clone(),
                    address: address(machine),
                    site: "here".to_owned(),
                    cpus: Vec::new(),
                    reach: Reach::Local,
                };
                self.ask_once(via, ControlToDaemon::Join(spec));
            }
            Act::Notice { machine } => self.event(machine, Event::Notice),
            Act::Down { via } => self.ask_once(via, ControlToDaemon::Down),
            Act::Reattach { job, via, tries } => self.reattach(job, via, tries),
        }
    }

    fn some_job(&mut self) -> Option<JobId> {
        let open = self.person.open_jobs();
        self.random.pick(&open)
    }

    fn ask_for_change(&mut self, change: Change, mode: ModeWanted, via: usize) {
        let Some(job) = self.some_job() else { return };
        let ranks = self.person.own(job).ranks;
        let change = layout_change(change, ranks, self.machines.len(), &mut self.random);
        let request = ControlToDaemon::Reconfigure {
            job,
            change,
            mode,
            cause: "a person".to_owned(),
            method: None,
        };
        self.ask_once(via, request);
    }

    fn ask_once(&mut self, via: usize, request: ControlToDaemon) {
        self.ask(via, Asked::Once(Box::new(request.clone())), request);
    }

    /// Links to a daemon and asks; nothing is asked of one that is not there.
    fn ask(&mut self, via: usize, asked: Asked, request: ControlToDaemon) -> Option<LinkId> {
        let now = self.queue.now();
        self.links += 1;
        let link = LinkId(self.links);
        let daemon = self.machines[via].daemon.as_mut().filter(|daemon| !daemon.is_ending)?;
        daemon.controls.insert(link);
        self.tally.asked += 1;
        let job = match &asked {
            Asked::Job { attaches, .. } => *attaches,
            Asked::Once(_) => None,
        };
        self.person.begin(
            link,
            Ask {
                asked,
                machine: via,
                since: now,
                answers: 0,
                job,
                is_over: false,
            },
        );
        self.event(via, Event::Control(ControlFact::Linked { link }));
        let message = Box::new(request);
        self.event(via, Event::Control(ControlFact::Said { link, message }));
        Some(link)
    }

    fn reattach(&mut self, job: JobId, via: usize, tries: u32) {
        let owned = self.person.own(job);
        if owned.end.is_some() || owned.is_given_up || self.person.is_attached(job) {
            return;
        }
        if tries >= TRIES_MAX {
            self.person.own(job).is_given_up = true;
            return;
        }
        let received = self.person.own(job).received.all();
        let asked = Asked::Job {
            attaches: Some(job),
            is_detached: false,
        };
        let link = self.ask(via, asked, ControlToDaemon::Attach { job, received });
        if link.is_none() {
            self.look_for_job(job, (via + 1) % self.machines.len(), tries + 1);
        }
    }

    fn look_for_job(&mut self, job: JobId, via: usize, tries: u32) {
        let act = Box::new(Act::Reattach { job, via, tries });
        self.queue.after(TRY_EVERY, Happening::Act(act));
    }

    /// The daemon behind a link is gone.
    pub(super) fn on_link_lost(&mut self, link: LinkId) {
        let Some(ask) = self.person.end(link).filter(|ask| !ask.is_over) else {
            return;
        };
        if let (Asked::Job { is_detached: false, .. }, Some(job)) = (&ask.asked, ask.job) {
            self.look_for_job(job, ask.machine, 0);
        }
    }

    /// A daemon answers over a link.
    pub(super) fn on_answer(&mut self, machine: usize, link: LinkId, answer: DaemonToControl) {
        self.tell(|| format!("n{machine} answers {link:?} {}", short(&answer)));
        let Some(ask) = self.person.ask(link) else { return };
        ask.answers += 1;
        let (answers, asked) = (ask.answers, ask.asked.clone());
        self.tally.refused += u64::from(matches!(answer, DaemonToControl::Refused(_)));
        match asked {
            Asked::Once(request) if answers > 1 => {
                let text = format!("{} is answered again: {}", short(&request), short(&answer));
                self.violate(Violation::new("every_request_is_answered_once", text));
            }
            Asked::Once(request) => {
                self.learn(&request, &answer);
                self.close_link(machine, link);
            }
            Asked::Job { attaches, is_detached } => self.on_job_answer(machine, (link, attaches, is_detached), answer),
        }
    }

    fn close_link(&mut self, machine: usize, link: LinkId) {
        if let Some(ask) = self.person.ask(link) {
            ask.is_over = true;
        }
        let of = self.machines[machine].life();
        if let Some(of) = of {
            let event = Box::new(Event::Control(ControlFact::Lost { link, in_order: true }));
            self.queue.after(100, Happening::Event { of, event });
        }
    }

    fn learn(&mut self, request: &ControlToDaemon, answer: &DaemonToControl) {
        if let (ControlToDaemon::Reconfigure { job, .. }, DaemonToControl::Reconfigured(done)) = (request, answer) {
            self.person.own(*job).ranks = done.ranks_after;
        }
    }

    fn on_job_answer(
        &mut self,
        machine: usize,
        (link, attaches, is_detached): (LinkId, Option<JobId>, bool),
        answer: DaemonToControl,
    ) {
        let job = self.person.ask(link).and_then(|ask| ask.job);
        match answer {
            DaemonToControl::JobAccepted { job } => {
                if attaches.is_none() {
                    let request = link.0;
                    self.ledger.see(Seen::Accepted { job, request });
                    let owned = self.person.own(job);
                    owned.is_detached = is_detached;
                    owned.ranks = 2;
                }
                if let Some(ask) = self.person.ask(link) {
                    ask.job = Some(job);
                }
            }
            DaemonToControl::Output {
                process,
                stream,
                offset,
                bytes,
                ..
            } => {
                if let Some(job) = job {
                    self.on_output((machine, link, job), (process, stream), offset, &bytes);
                }
            }
            DaemonToControl::JobEnded(end) => {
                let Some(job) = job else { return };
                self.ledger.see(Seen::ToldEnd { job, code: end.code });
                let owned = self.person.own(job);
                owned.end = Some(end.code);
                if let Some(text) = owned.received.disorder() {
                    self.violate(Violation::new("output_comes_once_and_in_order", text));
                }
                self.close_link(machine, link);
            }
            DaemonToControl::LedBy { node } => self.follow_leader(machine, link, job, &node),
            DaemonToControl::CutOff => {}
            DaemonToControl::Refused(refusal) => {
                self.close_link(machine, link);
                let Some(job) = attaches else { return };
                if refusal.code == pcm_proto::refusal::JOB_ENDED {
                    self.person.own(job).is_given_up = true;
                } else {
                    let tries = 1 + (self.queue.now() / TRY_EVERY % 7) as u32;
                    self.look_for_job(job, (machine + 1) % self.machines.len(), tries);
                }
            }
            _ => {}
        }
    }

    fn on_output(
        &mut self,
        (machine, link, job): (usize, LinkId, JobId),
        (process, stream): (ProcessId, Stream),
        offset: u64,
        bytes: &[u8],
    ) {
        // A daemon that dies takes with it what it had read and not yet written down.
        let is_excused = self.tally.restarts + self.tally.machines_lost > 0;
        let owned = self.person.own(job);
        if is_excused {
            owned.received.skip((process, stream), offset);
        }
        let counted = self.ranks.get(&ProcessKey { job, process }).map(|rank| &rank.counted);
        let is_other = |counted: &Vec<u8>| {
            counted
                .get(offset as usize..)
                .is_none_or(|rest| !rest.starts_with(bytes))
        };
        if counted.is_some_and(is_other) {
            let text = format!("process {process} of job {job}: what comes at {offset} is not what it printed there");
            return self.violate(Violation::new("output_comes_once_and_in_order", text));
        }
        let has_all = owned.received.take((process, stream), offset, bytes);
        let total = owned.received.bytes((process, stream));
        if !has_all {
            let text = format!("process {process} of job {job}: {total} bytes are there, {offset} come");
            return self.violate(Violation::new("output_comes_once_and_in_order", text));
        }
        let message = Box::new(ControlToDaemon::OutputTaken {
            process,
            stream,
            bytes: total,
        });
        if let Some(of) = self.machines[machine].life() {
            let event = Box::new(Event::Control(ControlFact::Said { link, message }));
            self.queue.after(200, Happening::Event { of, event });
        }
    }

    fn follow_leader(&mut self, machine: usize, link: LinkId, job: Option<JobId>, node: &NodeName) {
        let (Some(job), Some(via)) = (job, super::machine::machine_named(node)) else {
            return;
        };
        self.close_link(machine, link);
        self.look_for_job(job, via, 1);
    }
}
