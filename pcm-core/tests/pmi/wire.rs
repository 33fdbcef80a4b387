//! Requests from bytes.

use pcm_core::pmi::wire::{Answer, ParseError, REQUEST_BYTES_MAX, Request, VALUE_LENGTH_MAX, request_read};
use proptest::prelude::*;

fn read(text: &str) -> Request {
    let (request, taken) = request_read(text.as_bytes()).unwrap().unwrap();
    assert_eq!(taken, text.len());
    request
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
            assert_eq!(request_read(&text.as_bytes()[..length]), Ok(None), "{length}");
        }
    }
}

#[test]
fn only_the_first_of_two_requests_is_taken() {
    let (request, taken) = request_read(b"cmd=finalize\ncmd=barrier_in\n").unwrap().unwrap();
    assert_eq!((request, taken), (Request::Finalize, 13));
}

#[test]
fn limits_hold() {
    let long = format!("cmd=put kvsname=k key=a value={}\n", "x".repeat(VALUE_LENGTH_MAX + 1));
    assert!(matches!(
        request_read(long.as_bytes()),
        Err(ParseError::BadField { field: "value", .. })
    ));
    assert_eq!(request_read(&vec![b'x'; REQUEST_BYTES_MAX]), Err(ParseError::TooLong));
    let many = SPAWN.replace("argcnt=2", "argcnt=4000000000");
    assert!(matches!(
        request_read(many.as_bytes()),
        Err(ParseError::BadSpawn { .. })
    ));
    let missing = SPAWN.replace("argcnt=2", "argcnt=3");
    assert!(matches!(
        request_read(missing.as_bytes()),
        Err(ParseError::SpawnIncomplete { .. })
    ));
}

#[test]
fn what_is_no_request_is_refused_with_its_beginning() {
    assert!(matches!(
        request_read(b"GET / HTTP/1.1\r\n"),
        Err(ParseError::NoCommand { .. })
    ));
    assert_eq!(request_read(b"\xff\xfe\n"), Err(ParseError::NotText));
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
        if let Ok(Some((_, taken))) = request_read(&bytes) {
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
        if let Ok(Some((_, taken))) = request_read(&bytes) {
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
