//! Requests of `pcmctl`: each is answered by this daemon, by the node that it names, by the coordinator of its job,
//! or by all daemons together.

use crate::node::event::LogsAnswer;
use crate::node::layout_request::LayoutAsked;
use crate::node::machine::Node;
use crate::node::outbox::{Effect, LogsEffect};
use crate::node::requester::{LinkId, Requester};
use pcm_proto::control::{ControlToDaemon, DaemonToControl, LogOf};
use pcm_proto::keeper::DaemonToKeeper;
use pcm_proto::peer::Question;
use pcm_proto::refusal;
use pcm_proto::shortened::Shortened;

impl Node {
    pub(in crate::node) fn on_control_said(&mut self, link: LinkId, request: ControlToDaemon) {
        let from = Requester::Control(link);
        tracing::debug!(?link, request = %Shortened(&request));
        match request {
            ControlToDaemon::Run(spec) => self.with_jobs(|jobs, cx| jobs.on_run(from, *spec, cx)),
            ControlToDaemon::Attach { job, received } => {
                self.with_jobs(|jobs, cx| jobs.table.on_attach(from, job, received, cx));
            }
            ControlToDaemon::Stdin(bytes) => self.with_jobs(|jobs, cx| jobs.table.on_stdin(link, bytes, cx)),
            ControlToDaemon::OutputTaken { process, stream, bytes } => {
                self.with_jobs(|jobs, cx| jobs.table.on_output_taken(link, (process, stream, bytes), cx));
            }
            ControlToDaemon::Nodes => self.with_desk(|desk, _, cx| desk.gather_nodes(from, cx)),
            ControlToDaemon::Jobs => self.with_desk(|desk, _, cx| desk.gather_jobs(from, &Question::Jobs, cx)),
            ControlToDaemon::JobsNamed { name } => {
                let question = Question::JobsNamed { name };
                self.with_desk(|desk, _, cx| desk.gather_jobs(from, &question, cx));
            }
            ControlToDaemon::Events { job, follow } => {
                self.with_desk(|desk, _, cx| desk.on_events_wanted(link, job, follow, cx));
            }
            ControlToDaemon::Down => self.with_ending(|ending, _, cx| ending.on_down(from, cx)),
            request => {
                let here = self.with_desk(|desk, jobs, cx| desk.pass_on(from.clone(), request, jobs, cx));
                if let Some(request) = here {
                    self.on_local_request(from, request);
                }
            }
        }
    }

    /// Requests this daemon is the right one for.
    pub(in crate::node) fn on_local_request(&mut self, from: Requester, request: ControlToDaemon) {
        tracing::debug!(?from, request = %Shortened(&request), "answered here");
        let left = self.with_desk(|desk, jobs, cx| desk.begin_view(&from, request, jobs, cx));
        let Some(request) = left else { return };
        match request {
            ControlToDaemon::Signal { job, signal } => {
                self.with_jobs(|jobs, cx| jobs.table.on_signal(from, job, signal, cx));
            }
            ControlToDaemon::Kill { job } => {
                self.with_jobs(|jobs, cx| jobs.table.on_kill(from, job, cx));
            }
            ControlToDaemon::Checkpoint { job, into } => {
                self.with_jobs(|jobs, cx| jobs.table.on_checkpoint_request(from, job, into, cx));
            }
            ControlToDaemon::Reconfigure {
                job,
                change,
                mode,
                cause,
                method,
            } => {
                let asked = LayoutAsked {
                    job,
                    change,
                    mode,
                    cause,
                    method,
                };
                self.with_jobs(|jobs, cx| jobs.on_reconfigure(from, asked, cx));
            }
            ControlToDaemon::Ping { .. } => {
                let version = env!("CARGO_PKG_VERSION").to_owned();
                let node = self.settings.own.clone();
                self.out.answer(
                    from,
                    DaemonToControl::Pong {
                        node,
                        round_trip_us: 0,
                        version,
                    },
                );
            }
            ControlToDaemon::Logs { of, lines, .. } => {
                self.out.push(Effect::Logs(LogsEffect::Tail { from, of, lines }));
            }
            ControlToDaemon::LogLevels { of, levels, .. } => {
                self.out.push(Effect::Logs(LogsEffect::Levels { from, of, levels }));
            }
            ControlToDaemon::Join(spec) if spec.name == self.settings.own && self.cluster.nodes().is_draining() => {
                self.with_ending(|ending, _, cx| ending.on_undrain(from, &spec, cx));
            }
            ControlToDaemon::Join(spec) => {
                let around = (&self.settings, &self.cluster);
                self.boot.on_join(from, spec, around, &mut self.out);
            }
            ControlToDaemon::Drain { deadline_ms, .. } => {
                self.with_ending(|ending, jobs, cx| ending.on_drain(from, deadline_ms, jobs, cx));
            }
            ControlToDaemon::Remove { .. } => self.with_ending(|ending, jobs, cx| ending.on_remove(from, jobs, cx)),
            _ => {
                let message = "this request needs a link of its own";
                self.with_jobs(|_, cx| cx.refuse(from, refusal::NOT_SUPPORTED, message));
            }
        }
    }

    /// The logs were read, or their levels changed.
    pub(in crate::node) fn on_logs_answer(&mut self, done: LogsAnswer) {
        match done.levels {
            Some((LogOf::Daemon, levels)) => self.out.keeper(DaemonToKeeper::Levels(levels)),
            Some((LogOf::Agent, levels)) => self.agent.set_levels(levels, &mut self.out),
            None => {}
        }
        self.out.answer(done.from, done.answer);
    }
}
