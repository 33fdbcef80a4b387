//! What members get, and what others do not.

use crate::ends::{DEADLINE, data, end, end_with, in_time, key, transfer};
use pcm_fabric::bulk::{
    BulkService as _, Ledger, Protection, PutError, PutReport, Reason, RegionToken, wire::BLOCK_LENGTH,
};
use std::{sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

#[tokio::test]
async fn data_of_every_length_arrive_bit_for_bit() {
    for protection in [Protection::Sealed, Protection::Plain] {
        let (from, to) = (end(protection).await, end(protection).await);
        for length in [0, 1, BLOCK_LENGTH, BLOCK_LENGTH + 1, 7 * BLOCK_LENGTH - 5] {
            let report = transfer(&from, &to, to.local(), length).await;
            let blocks = length.div_ceil(BLOCK_LENGTH) as u64;
            assert_eq!(
                report,
                PutReport {
                    blocks_sent: blocks,
                    reconnects: 0
                }
            );
        }
    }
}

#[tokio::test]
async fn many_transfers_run_beside_each_other() {
    let (from, to) = (end(Protection::Sealed).await, end(Protection::Sealed).await);
    let running = (0..24).map(|number| {
        let (from, to) = (from.clone(), to.clone());
        tokio::spawn(async move { transfer(&from, &to, to.local(), 1_000_000 + number).await })
    });
    for transfer in running.collect::<Vec<_>>() {
        in_time(transfer).await.unwrap();
    }
}

#[tokio::test]
async fn only_what_a_region_lacks_is_sent() {
    let (from, to) = (end(Protection::Sealed).await, end(Protection::Sealed).await);
    let (block, length) = (BLOCK_LENGTH, 9 * BLOCK_LENGTH + 5);
    let sent = data(length, 3);
    let lacks = [3 * block as u64..3 * block as u64 + 1, 9 * block as u64..u64::MAX];
    let ledger = Ledger::lacking(length as u64, lacks).unwrap();
    let offer = to.offer_rest(vec![0; length], ledger).unwrap();
    let put = from.put(to.local(), offer.token(), Arc::clone(&sent), DEADLINE);
    let (report, got) = in_time(async { tokio::join!(put, offer.filled(DEADLINE)) }).await;
    assert_eq!(report.unwrap().blocks_sent, 2);
    let mut expected = vec![0; length];
    expected[3 * block..4 * block].copy_from_slice(&sent[3 * block..4 * block]);
    expected[9 * block..].copy_from_slice(&sent[9 * block..]);
    assert!(got.unwrap() == expected, "it got something else");
}

#[tokio::test]
async fn what_is_not_on_offer_is_refused_with_its_reason() {
    let (from, to) = (end(Protection::Sealed).await, end(Protection::Sealed).await);
    let put = |token, length| from.put(to.local(), token, data(length, 0), DEADLINE);
    let unknown = in_time(put(RegionToken([9; 16]), 10)).await;
    assert_eq!(unknown, Err(PutError::Refused(Reason::Unknown)));
    let offer = to.offer(vec![0; 11]).unwrap();
    let length = in_time(put(offer.token(), 10)).await;
    assert_eq!(length, Err(PutError::Refused(Reason::Length)));
    let token = offer.token();
    drop(offer);
    assert_eq!(in_time(put(token, 11)).await, Err(PutError::Refused(Reason::Unknown)));
}

#[tokio::test]
async fn a_sender_with_another_key_or_too_little_protection_gets_nothing_in() {
    let to = end(Protection::Sealed).await;
    let offer = to.offer(vec![0; 1000]).unwrap();
    let stranger = end_with(key("5b"), Protection::Sealed).await;
    let put = stranger.put(to.local(), offer.token(), data(1000, 0), DEADLINE);
    assert!(matches!(in_time(put).await, Err(PutError::Stranger(_))));
    let careless = end(Protection::Plain).await;
    let put = careless.put(to.local(), offer.token(), data(1000, 0), DEADLINE);
    assert_eq!(in_time(put).await, Err(PutError::Protection));
    assert_eq!(offer.filled(Duration::from_millis(50)).await, None);
}

#[tokio::test]
async fn bytes_of_a_stranger_are_answered_with_fewer_and_hold_nobody_up() {
    let (from, to) = (end(Protection::Sealed).await, end(Protection::Sealed).await);
    let mut held = Vec::new();
    for length in [1_usize, 6, 40, 300, 5000] {
        let mut stranger = TcpStream::connect(to.local()).await.unwrap();
        let bytes: Vec<u8> = (0..length).map(|at| (at * 37) as u8).collect();
        stranger.write_all(&bytes).await.unwrap();
        held.push((stranger, length));
    }
    transfer(&from, &to, to.local(), 100_000).await;
    for (mut stranger, length) in held {
        let mut answer = Vec::new();
        // A reset is as good an end as any.
        let _ = in_time(stranger.read_to_end(&mut answer)).await;
        assert!(answer.len() <= length);
    }
}

#[tokio::test]
async fn a_transfer_nobody_answers_fails_at_its_deadline() {
    let from = end(Protection::Sealed).await;
    let silent = tokio::net::TcpListener::bind(crate::ends::any_port()).await.unwrap();
    let address = silent.local_addr().unwrap();
    let begun = std::time::Instant::now();
    let put = from.put(
        address,
        RegionToken([1; 16]),
        Arc::new(vec![0; 10]),
        Duration::from_millis(700),
    );
    assert!(matches!(in_time(put).await, Err(PutError::Deadline { .. })));
    assert!(begun.elapsed() < DEADLINE / 4);
}
