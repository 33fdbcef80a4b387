//! Every period, deadline and limit of the failure detector and where it comes from.
//!
//! The sum is what is promised: a node that dies is gone for all others within 3 s. Its last sign of life is at most
//! one delivery old when it dies; [`PATIENCE`] is 2.4 s, two ticks of rounding make 2.65 s, and 0.35 s are left for the
//! news to reach everyone (two to four hops). A cluster that is given another patience keeps that much longer or
//! shorter.

use std::time::Duration;

/// The one timer. All other times are multiples, rounded up by less than this.
pub const TICK: Duration = Duration::from_millis(125);

/// Most time that one tick may count against others. What exceeds it is our own lateness (a full CPU, a stopped
/// process), and while we were not looking nobody can have failed to answer us.
pub const CREDIT_MAX: Duration = Duration::from_millis(250);

/// Each subject is probed this often: four probes must fail in a row before anybody is suspected.
pub const PROBE_PERIOD: Duration = Duration::from_millis(250);

/// Silence after which others are asked to probe too, which rules out that only our path is broken.
pub const HELP_AFTER: Duration = Duration::from_millis(500);

/// Silence after which a subject is suspected: a probe, an answer each delayed by 300 ms, and the wait for the next
/// probe (250 ms) with its rounding (125 ms) stay below it.
pub const SUSPECT_AFTER: Duration = Duration::from_millis(1000);

/// How long a node may be silent before it is taken for dead, unless the cluster was given another patience. What is
/// left of it after [`SUSPECT_AFTER`] is the time a suspected node has to say that it lives: at 300 ms one way it hears
/// of it and is heard within 600 ms, and has two more probes' time should those be lost.
pub const PATIENCE: Duration = Duration::from_millis(2400);

/// The least patience: [`SUSPECT_AFTER`] and the time for one objection at 300 ms one way.
pub const PATIENCE_MIN: Duration = Duration::from_millis(1600);

/// The greatest patience: whoever follows a job looks for its new coordinator for half a minute.
pub const PATIENCE_MAX: Duration = Duration::from_secs(20);

/// Least time between hearing of a suspicion and believing it, so that old news cannot outrun its refutation.
pub const SUSPICION_LEFT_MIN: Duration = Duration::from_millis(500);

/// Nodes that each node watches, hence on average that watch it: two may be wrong or dead and it is still watched,
/// and the graph they form reaches a thousand nodes in five hops.
pub const SUBJECTS: usize = 4;

/// Nodes asked to probe a silent subject.
pub const HELPERS: usize = 3;

/// Requests to help that are open at once; each takes one probe and ends after [`HELP_AFTER`].
pub const HELPING_MAX: usize = 64;

/// News about this many nodes ride on each message.
pub const UPDATES_PER_MESSAGE: usize = 8;

/// News is repeated this often times the logarithm of the cluster's size, as epidemic protocols do.
pub const REPEATS_FACTOR: u32 = 3;

/// Fresh news is sent at once, but not more often than this; a burst of changes shares its messages.
pub const FLUSH_PERIOD: Duration = Duration::from_millis(20);

/// A node that probed us within this time gets our fresh news.
pub const MONITOR_KEPT: Duration = Duration::from_secs(2);

/// Two views that still differ are compared in full at most this often per node.
pub const SYNC_PERIOD: Duration = Duration::from_secs(1);

/// Updates in one message of a comparison in full; at 400 bytes for a node of a hundred CPUs, a quarter of a frame.
pub const UPDATES_PER_SYNC: usize = 2000;

/// How often a node without mates asks its seeds.
pub const JOIN_PERIOD: Duration = Duration::from_millis(500);

/// So long after its start a node asks its seeds also while it has mates, if it knows none of its seeds: sixty packets,
/// of which one must arrive and be answered.
pub const SEEK_MAX: Duration = Duration::from_secs(30);

/// How often a node asks a seed later that no node it knows of has: the seed may be gone for good, or the only way to
/// the other part of a network that was cut.
pub const SEEK_PERIOD: Duration = Duration::from_secs(10);

/// One node taken for dead is tried again this often, so that a healed network is noticed.
pub const KNOCK_PERIOD: Duration = Duration::from_secs(1);

/// A node that is gone is remembered this long, to recognise it and to try it again.
pub const GONE_KEPT: Duration = Duration::from_secs(3600);

/// A leave is announced on this many ticks; with four watchers all are missed once in a million at 10 % loss.
pub const LEAVE_REPEATS: u8 = 3;

/// Most nodes of a cluster, those gone included; beyond it newcomers are refused.
pub const MEMBERS_MAX: usize = 16_384;

/// Longest address: a host name of the longest kind and a port.
pub const ADDRESS_LENGTH_MAX: usize = 262;

/// Most CPUs of a node.
pub const CPUS_MAX: usize = 8192;
