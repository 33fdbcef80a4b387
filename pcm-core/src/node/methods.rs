//! The method by which data moves in a change: what the request or the job names, or what was cheapest in changes like
//! it. Holds the costs as the shell last read them from the cluster's file; never touches the file.

use super::cost_file::{FileCosts, MethodsEffect};
use super::layout_request::LayoutAsked;
use super::outbox::{Effect, Outbox};
use super::requester::Requester;
use crate::reconfiguration::method_costs::{Choice, MethodCost, Situation, fingerprint, program_name};
use pcm_proto::event::Reconfigured;
use pcm_proto::job::JobSpec;
use pcm_proto::layout::Mode;
use pcm_proto::method::Method;
use pcm_proto::peer::RanksBegun;

/// What was chosen for a change that was asked for, so that its event can say why and its cost can be learned.
#[derive(Clone, Debug)]
pub struct Chosen {
    situation: Situation,
    choice: Choice,
    /// Why the ranks will be where they will.
    pub placement: Option<String>,
}

impl Chosen {
    pub fn method(&self) -> Method {
        self.choice.method
    }
}

/// The costs of changes by method, and changes that wait until the file was looked at.
#[derive(Debug, Default)]
pub struct MethodBook {
    found: FileCosts,
    waiting: Vec<(Requester, LayoutAsked)>,
}

impl MethodBook {
    /// A change is asked for: other daemons may have added costs since the last one.
    pub fn begin(&mut self, from: Requester, asked: LayoutAsked, out: &mut Outbox) {
        self.waiting.push((from, asked));
        out.push(Effect::Methods(MethodsEffect::Read));
    }

    /// The file was looked at, and holds this where it has changed; the changes that waited for it.
    pub fn on_read(&mut self, found: Option<FileCosts>) -> Vec<(Requester, LayoutAsked)> {
        if let Some(found) = found {
            self.found = found;
        }
        std::mem::take(&mut self.waiting)
    }

    /// The method of a change of a job of `from` ranks to `to` ranks.
    pub fn choose(&self, named: Option<Method>, spec: &JobSpec, (from, to): (u32, u32), begun: &RanksBegun) -> Chosen {
        let situation = Situation {
            from,
            to,
            registered: begun.registered,
            constant: begun.constant,
            program: program_name(&spec.program),
            arguments: fingerprint(spec.args.iter().map(Vec::as_slice)),
        };
        let of = |method, reason: &str| Choice {
            method,
            reason: reason.to_owned(),
        };
        let choice = match (named, spec.method) {
            (Some(method), _) => of(method, "the request names it"),
            (None, Some(method)) => of(method, "the job was started with it"),
            (None, None) => self.cheapest(&situation),
        };
        Chosen {
            situation,
            choice,
            placement: None,
        }
    }

    fn cheapest(&self, situation: &Situation) -> Choice {
        let mut choice = self.found.costs.choose(situation);
        if let Some(trouble) = &self.found.trouble {
            choice.reason = format!("{}; {trouble}", choice.reason);
        }
        choice
    }

    /// A change was made: its event says why by that method and there, and the next choice considers its cost.
    pub fn on_changed(chosen: Option<Chosen>, done: &mut Reconfigured, out: &mut Outbox) {
        let sizes = (done.ranks_before, done.ranks_after);
        let Some(chosen) = chosen.filter(|chosen| (chosen.situation.from, chosen.situation.to) == sizes) else {
            return;
        };
        done.placement = chosen.placement;
        let method = chosen.choice.method;
        if (done.mode, done.method) != (Mode::Live, Some(method)) {
            return;
        }
        done.method_reason = Some(chosen.choice.reason);
        let cost = MethodCost {
            situation: chosen.situation,
            method,
            pause_ms: done.pause_ms,
        };
        if cost.is_sensible() {
            out.push(Effect::Methods(MethodsEffect::Learn(cost)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moment::Moment;
    use crate::node::layout_request::tests::spec;
    use pcm_proto::ids::{Bytes, JobId, NodeName};

    fn begun() -> RanksBegun {
        RanksBegun {
            registered: Bytes(1 << 26),
            ..RanksBegun::default()
        }
    }

    #[test]
    fn a_method_that_the_request_names_comes_before_that_of_the_job() {
        let (one, other): (Method, Method) = ("merge-p2p-sync".parse().unwrap(), "merge-p2p-async".parse().unwrap());
        let book = MethodBook::default();
        let mut spec = spec();
        assert_eq!(book.choose(None, &spec, (2, 4), &begun()).method(), Method::default());
        spec.method = Some(one);
        assert_eq!(book.choose(None, &spec, (2, 4), &begun()).method(), one);
        assert_eq!(book.choose(Some(other), &spec, (2, 4), &begun()).method(), other);
    }

    #[test]
    fn the_reason_of_a_choice_names_what_is_wrong_with_the_file() {
        let mut book = MethodBook::default();
        book.on_read(Some(FileCosts {
            trouble: Some("methods.csv: ignored".to_owned()),
            ..FileCosts::default()
        }));
        let chosen = book.choose(None, &spec(), (2, 4), &begun());
        assert!(chosen.choice.reason.ends_with("; methods.csv: ignored"), "{chosen:?}");
    }

    #[test]
    fn a_change_waits_until_the_file_was_looked_at() {
        let mut out = Outbox::new(NodeName::new("n0").unwrap(), Moment(0));
        let mut book = MethodBook::default();
        let asked = LayoutAsked {
            job: JobId(1),
            change: pcm_proto::control::LayoutChange::Relaunch,
            mode: pcm_proto::layout::ModeWanted::Auto,
            cause: String::new(),
            method: None,
        };
        book.begin(Requester::Nobody, asked.clone(), &mut out);
        assert!(matches!(&out.take()[..], [Effect::Methods(MethodsEffect::Read)]));
        assert_eq!(book.on_read(None), [(Requester::Nobody, asked)]);
        assert_eq!(book.on_read(None), []);
    }
}
