//! The bytes of a sample of every message, and the layout of the shared page, are those of this version of the
//! protocol. A change needs another `PROTOCOL_VERSION`; `docs/protocol.md` says how to make one.

use pcm_proto::agent::{AgentToAgent, AgentToDaemon, DaemonToAgent};
use pcm_proto::app::{AppToDaemon, DaemonToApp};
use pcm_proto::boot::{BootReport, BootSpec};
use pcm_proto::control::{ControlToDaemon, DaemonToControl};
use pcm_proto::envelope::{DatagramBody, Envelope};
use pcm_proto::fnv::fnv1a;
use pcm_proto::frame;
use pcm_proto::handshake::{PROTOCOL_VERSION, Role};
use pcm_proto::keeper::{DaemonToKeeper, KeeperToDaemon};
use pcm_proto::page::{Call, Class, Head, Heading, Name, Orders, Peer, Progress};
use pcm_proto::{other_communicators::OtherCommunicators, pmix, record::Record, trace::Ring, unpack};
use serde::{Serialize, de::DeserializeOwned};
use std::path::Path;
use wire_samples::{Golden, Version, Wire, enums_that_travel};
use zerocopy::{FromBytes, IntoBytes};

const VERSION: Version = Version {
    constant: "PROTOCOL_VERSION",
    source: "pcm-proto/src/handshake.rs",
    number: PROTOCOL_VERSION,
    command: "PCM_GOLDEN=write cargo test -p pcm-proto -p pcm-core golden",
};

/// Names of methods are checked when they are read.
const TEXTS: &[&str] = &["merge-p2p-sync"];

/// As links, channels and datagrams carry messages.
fn packed<T: Serialize + DeserializeOwned>() -> Wire<T> {
    Wire {
        encode: |message| rmp_serde::to_vec(message).expect("a sample can be written"),
        decode: |bytes| frame::decode(bytes).expect("what was written can be read"),
    }
}

/// As keeper and daemon carry them.
fn named<T: Serialize + DeserializeOwned>() -> Wire<T> {
    Wire {
        encode: |message| rmp_serde::to_vec_named(message).expect("a sample can be written"),
        decode: |bytes| unpack::from_slice_named(bytes).expect("what was written can be read"),
    }
}

fn json<T: Serialize + DeserializeOwned>() -> Wire<T> {
    Wire {
        encode: |message| serde_json::to_vec(message).expect("a sample can be written"),
        decode: |bytes| serde_json::from_slice(bytes).expect("what was written can be read"),
    }
}

fn messages() -> Golden {
    let mut golden = Golden::trying(TEXTS);
    golden.add("hello", &packed::<Role>());
    golden.add("rank to daemon:", &packed::<AppToDaemon>());
    golden.add("daemon to rank:", &packed::<DaemonToApp>());
    golden.add("daemon to keeper:", &named::<DaemonToKeeper>());
    golden.add("keeper to daemon:", &named::<KeeperToDaemon>());
    golden.add("boot:", &json::<BootSpec>());
    golden.add("booted:", &json::<BootReport>());
    golden.add("agent to agent:", &packed::<AgentToAgent>());
    golden.add("agent to daemon:", &packed::<AgentToDaemon>());
    golden.add("daemon to agent:", &packed::<DaemonToAgent>());
    golden.add("pcmctl to daemon:", &packed::<ControlToDaemon>());
    golden.add("daemon to pcmctl:", &packed::<DaemonToControl>());
    golden.add("daemon to daemon:", &packed::<Envelope>());
    golden.add("daemon to what serves PMIx:", &packed::<pmix::Order>());
    golden.add("what serves PMIx to daemon:", &packed::<pmix::Report>());
    golden.add("datagram:", &packed::<DatagramBody>());
    golden
}

/// Every word of a page holds its own place, so that what is printed of the page says where each of its fields is.
fn page_printed() -> String {
    #[repr(C, align(64))]
    struct Aligned([u64; size_of::<Head>() / 8]);
    let mut memory = Box::new(Aligned([0; size_of::<Head>() / 8]));
    memory.0.iter_mut().zip(0..).for_each(|(word, place)| *word = place);
    let head = Head::mut_from_bytes(memory.0.as_mut_bytes()).expect("it is as long and aligned as a page");
    format!("{head:?}")
}

#[test]
fn golden_samples_of_every_message_and_the_page_are_those_of_this_version() {
    let mut golden = messages();
    let printed = page_printed();
    let sizes = [
        ("heading", size_of::<Heading>()),
        ("orders", size_of::<Orders>()),
        ("progress", size_of::<Progress>()),
        ("call", size_of::<Call>()),
        ("class", size_of::<Class>()),
        ("name", size_of::<Name>()),
        ("record", size_of::<Record>()),
        ("other_communicators", size_of::<OtherCommunicators>()),
        ("trace", size_of::<Ring>()),
        ("peer", size_of::<Peer>()),
        ("all but peers", size_of::<Head>()),
    ];
    for (part, bytes) in sizes {
        golden.add_line(format!("page: {part} has {bytes} bytes"));
    }
    golden.add_line(format!(
        "page: names and places of all fields {:016x}",
        fnv1a(printed.bytes())
    ));
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/protocol.txt");
    golden.check(&file, &VERSION);
}

#[test]
fn golden_samples_hold_every_enum_of_this_crate_that_travels() {
    let golden = messages();
    let mut all = enums_that_travel(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    for met in golden.samples.enums() {
        all.remove(&met.name);
    }
    assert!(
        all.is_empty(),
        "no message holds these, as far as the list of messages above goes: {all:?}"
    );
}

#[test]
fn a_field_of_the_page_that_moves_is_seen() {
    let printed = page_printed();
    let orders = size_of::<Heading>() / 8;
    assert!(
        printed.contains(&format!("ceiling: {orders}, doorbell: {}", orders + 1)),
        "{}",
        &printed[..400]
    );
}
