//! Connections that break, stall and alter what they carry: a transfer goes on where it was.

use crate::ends::{DEADLINE, any_port, data, end, in_time, transfer};
use pcm_fabric::bulk::{BulkService as _, Protection, wire::BLOCK_LENGTH};
use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

/// What a relay does to what the client sends on its `n`th connection.
#[derive(Clone, Copy)]
enum Harm {
    /// Cuts the connection after so many bytes.
    Cut(usize),
    /// Changes one bit of this byte.
    Alter(usize),
    /// Passes no more after so many bytes, and keeps the connection open.
    Stall(usize),
    None,
}

/// Harms one connection after the other; what it passed on is in the record.
async fn relay(to: SocketAddr, harms: Vec<Harm>) -> (SocketAddr, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind(any_port()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let record = Arc::new(Mutex::new(Vec::new()));
    let recorded = Arc::clone(&record);
    tokio::spawn(async move {
        let mut harms = harms.into_iter().chain(std::iter::repeat(Harm::None));
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(to).await.unwrap();
            let harm = harms.next().unwrap();
            tokio::spawn(pass(client, server, harm, Arc::clone(&recorded)));
        }
    });
    (address, record)
}

async fn pass(client: TcpStream, server: TcpStream, harm: Harm, record: Arc<Mutex<Vec<u8>>>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let back = tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_client).await });
    let mut passed = 0;
    let mut buffer = vec![0; 16 << 10];
    while let Ok(read) = from_client.read(&mut buffer).await
        && read > 0
    {
        let mut bytes = buffer[..read].to_vec();
        match harm {
            Harm::Cut(after) if passed + read > after => break,
            Harm::Stall(after) if passed + read > after => {
                tokio::time::sleep(DEADLINE).await;
                break;
            }
            Harm::Alter(at) if (passed..passed + read).contains(&at) => bytes[at - passed] ^= 1,
            _ => {}
        }
        passed += read;
        record.lock().unwrap().extend_from_slice(&bytes);
        if to_server.write_all(&bytes).await.is_err() {
            break;
        }
    }
    back.abort();
}

const BLOCKS: u64 = 40;
const LENGTH: usize = BLOCKS as usize * BLOCK_LENGTH;

#[tokio::test]
async fn a_transfer_goes_on_where_its_connection_broke() {
    for protection in [Protection::Sealed, Protection::Plain] {
        let (from, to) = (end(protection).await, end(protection).await);
        let harms = vec![
            Harm::Cut(10 * BLOCK_LENGTH),
            Harm::Cut(40),
            Harm::Cut(300),
            Harm::Cut(12 * BLOCK_LENGTH + 100),
            Harm::Stall(5 * BLOCK_LENGTH),
        ];
        let (through, _) = relay(to.local(), harms).await;
        let report = transfer(&from, &to, through, LENGTH).await;
        assert_eq!(report.reconnects, 5);
        // What lies in the sockets when a connection breaks is sent again, not all there is: 27 blocks had arrived.
        assert!(report.blocks_sent < 2 * BLOCKS + BLOCKS / 2, "{report:?}");
    }
}

#[tokio::test]
async fn a_block_altered_on_its_way_never_counts_as_arrived() {
    for protection in [Protection::Sealed, Protection::Plain] {
        let (from, to) = (end(protection).await, end(protection).await);
        let harms = [500, 5 * BLOCK_LENGTH, 5 * BLOCK_LENGTH + 1].map(Harm::Alter).to_vec();
        let (through, _) = relay(to.local(), harms).await;
        let report = transfer(&from, &to, through, LENGTH).await;
        assert_eq!(report.reconnects, 3, "{protection:?}");
    }
}

#[tokio::test]
async fn a_recorded_transfer_replayed_fills_nothing() {
    let (from, to) = (end(Protection::Sealed).await, end(Protection::Sealed).await);
    let (through, record) = relay(to.local(), Vec::new()).await;
    let offer = to.offer(vec![0; LENGTH]).unwrap();
    let put = from.put(through, offer.token(), data(LENGTH, 1), DEADLINE);
    in_time(put).await.unwrap();
    in_time(offer.filled(DEADLINE)).await.unwrap();
    let next = to.offer(vec![0; LENGTH]).unwrap();
    let mut stream = TcpStream::connect(to.local()).await.unwrap();
    let bytes = record.lock().unwrap().clone();
    let _ = stream.write_all(&bytes).await;
    let mut answer = Vec::new();
    let _ = in_time(stream.read_to_end(&mut answer)).await;
    assert!(answer.len() < 200, "{} bytes answer a replay", answer.len());
    assert_eq!(next.filled(Duration::from_millis(50)).await, None);
}
