//! Requests from bytes.

use pcm_core::pmi::wire::{Answer, REQUEST_BYTES_MAX, Reading, Request, Skipping, VALUE_LENGTH_MAX, request_read};
use proptest::prelude::*;

fn read(text: &str) -> Request {
    read_bytes(text.as_bytes())
}

fn read_bytes(bytes: &[u8]) -> Request {
    let Reading::Whole(request, taken) = request_read(bytes) else {
        panic!("no request")
    };
    assert_eq!(taken, bytes.len());
    request
}

/// What is wrong with a request, and how it is answered.
fn unfit(bytes: &[u8]) -> (String, String) {
    let Request::Unfit { command, reason } = read_bytes(bytes) else {
        panic!("a fit request")
    };
    let line = Answer::to_unfit(&command).line();
    (reason, line)
}

const SPAWN: &str = "\
mcmd=spawn
nprocs=2
execname=./worker
totspawns=2
spawnssofar=1
argcnt=2
arg1=a=b
arg2=two words
preput_num=1
preput_key_0=PARENT_ROOT_PORT_NAME
preput_val_0=tag#0$description#here$
info_num=2
info_key_0=host
info_val_0=n1
info_key_1=wdir
info_val_1=/some where
endcmd
mcmd=spawn
nprocs=1
execname=other
totspawns=2
spawnssofar=2
argcnt=0
preput_num=0
info_num=0
endcmd
";

#[test]
fn each_command_of_mpich_is_read() {
    let get = |key: &str| Request::Get { key: key.to_owned() };
    assert_eq!(
        read("cmd=init pmi_version=1 pmi_subversion=1\n"),
        Request::Init {
            version: 1,
            subversion: 1
        }
    );
    assert_eq!(read("cmd=get_maxes\n"), Request::Maxes);
    assert_eq!(read("cmd=get_appnum\n"), Request::AppNumber);
    assert_eq!(read("cmd=get_my_kvsname\n"), Request::KvsName);
    assert_eq!(read("cmd=get_universe_size\n"), Request::UniverseSize);
    assert_eq!(
        read("cmd=get kvsname=k key=PMI_process_mapping\n"),
        get("PMI_process_mapping")
    );
    assert_eq!(read("cmd=barrier_in\n"), Request::BarrierIn);
    assert_eq!(read("cmd=finalize\n"), Request::Finalize);
    let abort = Request::Abort {
        code: 42,
        message: "so it is".to_owned(),
    };
    assert_eq!(read("cmd=abort exitcode=42 message=so it is\n"), abort);
}

#[test]
fn a_value_may_hold_anything_but_the_end_of_a_line() {
    let put = Request::Put {
        key: "P0".to_owned(),
        value: "a b value=c cmd=x".to_owned(),
    };
    assert_eq!(read("cmd=put kvsname=k key=P0 value=a b value=c cmd=x\n"), put);
}

#[test]
fn a_spawn_of_several_commands_is_one_request() {
    let Request::Spawn { commands } = read(SPAWN) else {
        panic!("no spawn")
    };
    assert_eq!(commands.len(), 2);
    assert_eq!((commands[0].processes, commands[0].program.as_str()), (2, "./worker"));
    assert_eq!(commands[0].args, ["a=b", "two words"]);
    assert_eq!(commands[0].preputs[0].1, "tag#0$description#here$");
    assert_eq!(
        (commands[0].info("host"), commands[0].info("wdir")),
        (Some("n1"), Some("/some where"))
    );
    assert_eq!((commands[1].program.as_str(), commands[1].args.len()), ("other", 0));
}

#[test]
fn a_request_is_not_read_before_its_last_byte() {
    for text in [SPAWN, "cmd=put kvsname=k key=a value=b\n"] {
        for length in 0..text.len() {
            assert_eq!(
                request_read(&text.as_bytes()[..length]),
                Reading::Incomplete,
                "{length}"
            );
        }
    }
}

#[test]
fn only_the_first_of_two_requests_is_taken() {
    let reading = request_read(b"cmd=finalize\ncmd=barrier_in\n");
    assert_eq!(reading, Reading::Whole(Request::Finalize, 13));
}

#[test]
fn an_argument_may_hold_line_ends() {
    let args = ["arg1=a\n=b\n\nc d\nargs=3\n", "arg2=x\nprefix=y"];
    let text = SPAWN.replace("arg1=a=b", args[0]).replace("arg2=two words", args[1]);
    let Request::Spawn { commands } = read(&text) else {
        panic!("no spawn")
    };
    assert_eq!(commands[0].args, ["a\n=b\n\nc d\nargs=3\n", "x\nprefix=y"]);
}

#[test]
fn a_line_of_an_argument_is_never_taken_for_a_field() {
    for line in [
        "arg2=x",
        "arg3=x",
        "arg0=x",
        "argcnt=0",
        "info_num=0",
        "info_key_2=a",
        "nprocs=9",
        "totspawns=9",
    ] {
        for (argument, more) in [("arg1=a=b", ""), ("arg2=two words", "\nc")] {
            let text = SPAWN.replace(argument, &format!("{argument}\n{line}{more}"));
            let (reason, answer) = unfit(text.as_bytes());
            assert!(
                reason.contains(&format!("begins with {:?}, which", &line[..=line.find('=').unwrap()])),
                "{line}: {reason}"
            );
            assert_eq!(answer, "cmd=spawn_result rc=-1\n");
        }
    }
    for (line, said) in [
        ("endcmd", "endcmd"),
        ("endcmd\ntotspawns=9", "endcmd"),
        ("mcmd=spawn", "mcmd=spawn"),
    ] {
        let (reason, _) = unfit(SPAWN.replace("two words", &format!("two\n{line}\nc")).as_bytes());
        assert!(reason.contains(&format!("{said:?}")), "{line}: {reason}");
    }
    let in_the_last = SPAWN.replace("execname=other", "execname=other\nendcmd\nc");
    assert!(unfit(in_the_last.as_bytes()).0.contains("\"endcmd\""));
    let Request::Spawn { commands } = read(&SPAWN.replace("two words", "\r\narg02=x\r")) else {
        panic!("no spawn")
    };
    assert_eq!(commands[0].args[1], "\r\narg02=x\r");
}

#[test]
fn hosts_are_separated_by_commas() {
    let Request::Spawn { commands } = read(&SPAWN.replace("info_val_0=n1", "info_val_0=n1, n2 ,")) else {
        panic!("no spawn")
    };
    assert_eq!(commands[0].hosts(), ["n1", "n2"]);
    assert!(commands[1].hosts().is_empty());
}

#[test]
fn what_cannot_be_carried_out_is_answered_with_a_reason() {
    let long = format!("cmd=put kvsname=k key=a value={}\n", "x".repeat(VALUE_LENGTH_MAX + 1));
    let (reason, answer) = unfit(long.as_bytes());
    assert_eq!(reason, "\"value\" is missing or bad");
    assert_eq!(answer, "cmd=put_result rc=-1 msg=no_room\n");
    let refused = "cmd=spawn_result rc=-1\n";
    for (from, to, wrong) in [
        (
            "argcnt=2",
            "argcnt=4000000000",
            "it has a bad line: \"argcnt=4000000000\"",
        ),
        ("argcnt=2", "argcnt=3", "it lacks \"arg3\""),
        ("nprocs=2", "nprocs=many", "it has a bad line: \"nprocs=many\""),
    ] {
        let (reason, answer) = unfit(SPAWN.replace(from, to).as_bytes());
        assert_eq!((reason.as_str(), answer.as_str()), (wrong, refused));
    }
    let mut foreign = SPAWN.as_bytes().to_vec();
    let at = SPAWN.find("two words").unwrap();
    foreign[at] = 0xff;
    assert_eq!(unfit(&foreign).0, "it holds bytes that are not UTF-8");
    assert_eq!(unfit(b"cmd=lookup_name\n").1, "cmd=lookup_result rc=1 info=unknown\n");
    assert!(unfit(b"GET / HTTP/1.1\r\n").0.starts_with("a line without a command"));
    assert_eq!(unfit(b"\xff\xfe\n").1, "cmd=unknown_result rc=-1 msg=unknown_command\n");
}

#[test]
fn what_is_too_long_is_skipped_piece_by_piece_and_answered() {
    let text = SPAWN.replace("two words", &"x\nendcmd y".repeat(REQUEST_BYTES_MAX));
    let next = "cmd=finalize\n";
    let sent = format!("{text}{next}").into_bytes();
    assert_eq!(request_read(&sent[..REQUEST_BYTES_MAX]), Reading::TooLong);
    for piece in [1_000, 60_001, REQUEST_BYTES_MAX] {
        let mut skipping = Skipping::new(&sent[..REQUEST_BYTES_MAX]);
        let (mut at, mut seen) = (0, piece);
        let (request, end) = loop {
            match skipping.over(&sent[at..seen]) {
                Ok((request, end)) => break (request, at + end),
                Err(past) => at += past,
            }
            seen = sent.len().min(seen + piece);
        };
        let Request::Unfit { command, reason } = request else {
            panic!("a fit request")
        };
        assert_eq!((command.as_str(), end), ("spawn", text.len()));
        assert!(reason.contains("longer than 65536 bytes"), "{reason}");
    }
}

#[test]
fn what_is_left_of_a_spawn_after_a_cut_is_answered_once() {
    let tail = &SPAWN[SPAWN.rfind("argcnt").unwrap()..];
    let (_, answer) = unfit(tail.as_bytes());
    assert_eq!(answer, "cmd=spawn_result rc=-1\n");
}

#[test]
fn an_unknown_command_is_answered_as_failed() {
    let Request::Unknown { command } = read("cmd=fly high=1\n") else {
        panic!("known")
    };
    assert_eq!(
        Answer::Unknown(&command).line(),
        "cmd=fly_result rc=-1 msg=unknown_command\n"
    );
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_fail_otherwise_than_by_its_errors(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        if let Reading::Whole(_, taken) = request_read(&bytes) {
            prop_assert!(0 < taken && taken <= bytes.len());
        }
    }

    #[test]
    fn no_damage_to_a_spawn_makes_the_reader_fail_otherwise(
        at in 0..SPAWN.len(),
        byte in any::<u8>(),
        cut in 0..SPAWN.len(),
    ) {
        let mut bytes = SPAWN.as_bytes().to_vec();
        bytes[at] = byte;
        bytes.drain(cut..(cut + 7).min(SPAWN.len()));
        if let Reading::Whole(_, taken) = request_read(&bytes) {
            prop_assert!(0 < taken && taken <= bytes.len());
        }
    }

    #[test]
    fn every_answer_is_one_line(name in "[a-z_]{1,20}") {
        let codes = [0; 40];
        let (named, unknown) = (Answer::KvsName(&name), Answer::Unknown(&name));
        let answers = [named, Answer::Value(Some(&name)), Answer::Spawned(&codes), unknown];
        for answer in answers {
            let line = answer.line();
            prop_assert_eq!(line.find('\n'), Some(line.len() - 1));
        }
    }
}
