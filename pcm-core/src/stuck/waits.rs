//! What a rank that stays in one call waits for, by the rules of MPI. What cannot be told is no wait.

use super::view::{Turn, View};
use pcm_proto::page::ANY;
use pcm_proto::rank_snapshot::{CallLook, CollectiveLook};

/// Whether a rank needs one of those it waits for or all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// One is enough.
    Any,
    /// All of them.
    All,
}

/// What one rank waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    pub(super) of: Vec<u32>,
    pub(super) need: Need,
    /// Whether what it waits for cannot come, whatever the others do.
    pub(super) is_hopeless: bool,
    pub(super) why: Why,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Why {
    Message,
    /// That its message is taken.
    Taken,
    /// Messages of requests begun before.
    Requests,
    /// That these ranks begin the collective it is in.
    Collective {
        sequence: u64,
    },
    /// Nothing any more: this rank called something else as the same collective.
    Mismatch {
        sequence: u64,
        with: u32,
        difference: Difference,
    },
}

/// How two ranks' calls of what should be one collective differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Difference {
    /// They are different functions.
    Function,
    /// Their roots differ.
    Root,
    /// Their sizes differ.
    Size,
}

/// What `rank` waits for, if it can be told.
pub(super) fn of(view: &View<'_>, rank: u32) -> Option<Wait> {
    let call = view.call(rank)?;
    match call.function.trim_end_matches("_c") {
        "Recv" | "Probe" | "Mprobe" | "Sendrecv" | "Sendrecv_replace" => message(view, rank, call),
        "Send" | "Ssend" => taken(view, rank, call),
        "Wait" | "Waitall" | "Waitany" | "Waitsome" => requests(view, rank),
        _ => view.collective(rank).and_then(|own| collective(view, rank, own)),
    }
}

fn wait(of: Vec<u32>, need: Need, why: Why) -> Wait {
    Wait {
        of,
        need,
        is_hopeless: false,
        why,
    }
}

fn message(view: &View<'_>, rank: u32, call: &CallLook) -> Option<Wait> {
    let peer = call.peer?;
    if peer == ANY {
        let members = view.members(call.communicator);
        let others: Vec<u32> = members.iter().copied().filter(|other| *other != rank).collect();
        let is_sent_to_me = |other: &u32| {
            view.call(*other)
                .is_some_and(|theirs| matches(view, *other, theirs, rank, call))
        };
        let can_be_told = !others.is_empty() && !others.iter().any(is_sent_to_me);
        return can_be_told.then(|| wait(others, Need::Any, Why::Message));
    }
    let peer = u32::try_from(peer).ok()?;
    let theirs = view.call(peer);
    if theirs.is_some_and(|theirs| matches(view, peer, theirs, rank, call)) {
        // The message is on its way, however long it takes.
        return None;
    }
    Some(wait(vec![peer], Need::All, Why::Message))
}

/// Whether `from` is sending what `to` receives.
fn matches(view: &View<'_>, from: u32, send: &CallLook, to: u32, receive: &CallLook) -> bool {
    let sends = matches!(
        send.function.trim_end_matches("_c"),
        "Send" | "Ssend" | "Rsend" | "Bsend"
    );
    let is_tag = receive.tag == Some(ANY) || receive.tag == send.tag;
    let is_source = receive.peer == Some(ANY) || receive.peer == i32::try_from(from).ok();
    let receives = matches!(receive.function.trim_end_matches("_c"), "Recv" | "Probe" | "Mprobe");
    sends && receives && is_tag && is_source && send.peer == i32::try_from(to).ok()
        && send.communicator == receive.communicator
        // A receive that came first would have taken it: with more sent than posted this one is an older message's.
        && view.traffic(from, to).is_none_or(|(sent, posted)| receive.peer == Some(ANY) || sent >= posted)
}

fn taken(view: &View<'_>, rank: u32, call: &CallLook) -> Option<Wait> {
    let peer = u32::try_from(call.peer?).ok()?;
    let theirs = view.call(peer);
    if theirs.is_some_and(|theirs| matches(view, rank, call, peer, theirs)) {
        return None;
    }
    Some(wait(vec![peer], Need::All, Why::Taken))
}

/// Which of its requests a rank waits for is not known, so any that can still be met excuses it.
fn requests(view: &View<'_>, rank: u32) -> Option<Wait> {
    let look = view.look(rank)?;
    if look.peers_left_out > 0 {
        return None;
    }
    let mut of = Vec::new();
    for peer in view.ranks().map(|other| other.rank.0).filter(|other| *other != rank) {
        let (theirs_sent, own_posted) = view.traffic(peer, rank)?;
        let (own_sent, theirs_posted) = view.traffic(rank, peer)?;
        let takes_from_anybody = view.look(peer).is_some_and(|other| other.from_anybody > 0);
        if own_posted > theirs_sent || (own_sent > theirs_posted && !takes_from_anybody) {
            of.push(peer);
        }
    }
    let begun = look.collectives.iter().filter(|one| one.function.starts_with('I'));
    for one in begun {
        let members = view.members(one.communicator).iter();
        let late = members.filter(|other| view.turn(**other, one.communicator, one.sequence) == Turn::NotYet);
        of.extend(late);
    }
    if look.from_anybody > 0 {
        // Some request may be met by whoever sends first.
        of.extend(view.ranks().map(|other| other.rank.0).filter(|other| *other != rank));
    }
    of.sort_unstable();
    of.dedup();
    (!of.is_empty()).then(|| wait(of, Need::Any, Why::Requests))
}

fn collective(view: &View<'_>, rank: u32, own: &CollectiveLook) -> Option<Wait> {
    let members = view.members(own.communicator);
    let mut missing = Vec::new();
    for other in members.iter().copied().filter(|other| *other != rank) {
        match view.turn(other, own.communicator, own.sequence) {
            Turn::NotYet => missing.push(other),
            Turn::Unknown => {}
            Turn::Begun(theirs) => {
                // A rank that gets something of the root alone goes on whatever third ones call.
                let depends = own
                    .root
                    .is_none_or(|root| [rank, other].iter().any(|one| i32::try_from(*one) == Ok(root)));
                if let Some(difference) = difference(own, theirs).filter(|_| depends) {
                    let why = Why::Mismatch {
                        sequence: own.sequence,
                        with: other,
                        difference,
                    };
                    let is_hopeless = true;
                    return Some(Wait {
                        is_hopeless,
                        ..wait(vec![other], Need::All, why)
                    });
                }
            }
        }
    }
    let why = Why::Collective { sequence: own.sequence };
    // With a root some ranks need nothing of some others.
    let need = if own.root.is_some() { Need::Any } else { Need::All };
    (!missing.is_empty()).then(|| wait(missing, need, why))
}

/// How two calls that should be one collective differ.
fn difference(own: &CollectiveLook, theirs: &CollectiveLook) -> Option<Difference> {
    let name = |one: &CollectiveLook| one.function.trim_end_matches("_c").to_owned();
    if name(own) != name(theirs) {
        return Some(Difference::Function);
    }
    if own.root != theirs.root && own.root.is_some() && theirs.root.is_some() {
        return Some(Difference::Root);
    }
    let is_same_everywhere = [
        "Bcast",
        "Reduce",
        "Allreduce",
        "Scan",
        "Exscan",
        "Alltoall",
        "Allgather",
        "Gather",
        "Reduce_scatter_block",
    ];
    let short = name(own);
    let short = short.strip_prefix('I').map_or(short.clone(), capitalised);
    // Types that are not known count as empty.
    let are_known = own.bytes.0 > 0 && theirs.bytes.0 > 0;
    (is_same_everywhere.contains(&short.as_str()) && are_known && own.bytes != theirs.bytes).then_some(Difference::Size)
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters
        .next()
        .map(|first| first.to_uppercase().chain(letters).collect())
        .unwrap_or_default()
}
