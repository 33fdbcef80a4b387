//! Links over unix sockets.

use crate::pair::{DEADLINE, daemon, in_time, limits, until};
use pcm_fabric::{LocalAddress, LocalConnectError, LocalEndpoint, LocalListenError, RecvError};
use pcm_proto::handshake::{Identity, PROTOCOL_VERSION, Role};
use std::{fs, os::unix::fs::MetadataExt as _, path::PathBuf};
use tokio::{io::AsyncWriteExt as _, net::UnixStream};

fn server() -> LocalEndpoint {
    LocalEndpoint::with_limits(daemon("n0"), limits())
}

fn client() -> LocalEndpoint {
    LocalEndpoint::with_limits(Identity::new(Role::Application), limits())
}

#[tokio::test]
async fn local_processes_of_one_user_speak_by_path_and_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let name = format!("pcm-test-{}", std::process::id());
    for address in [LocalAddress::Path(dir.path().join("s")), LocalAddress::Abstract(name)] {
        let endpoint = server();
        let mut listener = endpoint.listen(&address).await.unwrap();
        let local = client();
        let (connected, mut accepted) =
            in_time(async { tokio::join!(local.connect(&address, DEADLINE), listener.accept()) }).await;
        let mut connected = connected.unwrap();
        assert_eq!(*connected.peer(), daemon("n0"));
        assert_eq!(*accepted.peer(), Identity::new(Role::Application));
        connected.send(&vec![1u64; 20_000]).await.unwrap();
        assert_eq!(in_time(accepted.recv::<Vec<u64>>()).await.unwrap(), vec![1; 20_000]);
        accepted.send("done").await.unwrap();
        assert_eq!(in_time(connected.recv::<String>()).await.unwrap(), "done");
        drop(connected);
        assert!(matches!(
            in_time(accepted.recv::<String>()).await,
            Err(RecvError::Closed)
        ));
    }
}

#[tokio::test]
async fn a_socket_file_is_private_and_goes_with_its_listener() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let listener = server().listen(&LocalAddress::Path(path.clone())).await.unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    drop(listener);
    assert!(!path.exists());
}

#[tokio::test]
async fn a_socket_of_a_living_process_is_not_taken_and_one_of_a_dead_process_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let address = LocalAddress::Path(dir.path().join("s"));
    let living = server().listen(&address).await.unwrap();
    assert!(matches!(
        server().listen(&address).await,
        Err(LocalListenError::Taken { .. })
    ));
    drop(living);
    drop(std::os::unix::net::UnixListener::bind(dir.path().join("s")).unwrap());
    assert!(dir.path().join("s").exists());
    server().listen(&address).await.unwrap();
}

#[tokio::test]
async fn a_path_too_long_for_the_system_is_a_clear_error() {
    let address = LocalAddress::Path(PathBuf::from("/tmp").join("x".repeat(120)));
    let error = server().listen(&address).await.unwrap_err();
    assert!(error.to_string().contains("use a shorter directory"), "{error}");
    assert!(client().connect(&address, DEADLINE).await.is_err());
}

#[tokio::test]
async fn a_local_version_mismatch_is_told_to_both_sides() {
    let dir = tempfile::tempdir().unwrap();
    let address = LocalAddress::Path(dir.path().join("s"));
    let endpoint = server();
    let mut listener = endpoint.listen(&address).await.unwrap();
    let accepting = tokio::spawn(async move { listener.accept().await });
    let older = LocalEndpoint::new(Identity {
        version: PROTOCOL_VERSION - 1,
        role: Role::Control,
    });
    let error = in_time(older.connect(&address, DEADLINE)).await.unwrap_err();
    assert!(matches!(error, LocalConnectError::Version(_)), "{error:?}");
    until(|| endpoint.counters().snapshot().rejected_version == 1).await;
    accepting.abort();
}

#[tokio::test]
async fn local_strangers_without_a_hello_are_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let endpoint = server();
    let mut listener = endpoint.listen(&LocalAddress::Path(path.clone())).await.unwrap();
    let accepting = tokio::spawn(async move { listener.accept().await });
    let _silent = UnixStream::connect(&path).await.unwrap();
    let mut strangers = Vec::new();
    for bytes in [&b"random bytes, not a hello"[..], &[255; 400]] {
        let mut stranger = UnixStream::connect(&path).await.unwrap();
        stranger.write_all(bytes).await.unwrap();
        strangers.push(stranger);
    }
    until(|| {
        let counters = endpoint.counters().snapshot();
        counters.rejected_hello == 2 && counters.rejected_deadline == 1
    })
    .await;
    accepting.abort();
}
