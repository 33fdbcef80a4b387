//! A receiver whose places are all taken: by strangers, who make room, or by connections of members that are kept for
//! later.

use crate::ends::{end, end_within, in_time, key, transfer};
use pcm_fabric::{
    Limits,
    bulk::{BulkService as _, Protection, TcpBulk},
};
use tokio::net::TcpStream;

async fn small() -> TcpBulk {
    let limits = Limits {
        half_open_max: 4,
        bulk_max: 4,
        ..Limits::default()
    };
    end_within(key("5a"), Protection::Sealed, limits).await
}

#[tokio::test]
async fn a_transfer_gets_in_while_strangers_hold_every_place() {
    let (from, to) = (end(Protection::Sealed).await, small().await);
    let mut strangers = Vec::new();
    for _ in 0..12 {
        strangers.push(TcpStream::connect(to.local()).await.unwrap());
    }
    let report = transfer(&from, &to, to.local(), 1000).await;
    assert_eq!(report.reconnects, 0, "it waited its turn and was not turned away");
    drop(strangers);
}

#[tokio::test]
async fn connections_that_members_keep_for_later_make_room_for_others() {
    let to = small().await;
    let mut members = Vec::new();
    for number in 0..12 {
        let member = end(Protection::Sealed).await;
        let report = in_time(transfer(&member, &to, to.local(), 1000 + number)).await;
        assert_eq!(report.reconnects, 0, "member {number}");
        members.push(member);
    }
    // The connection of the first was taken from it; it makes another.
    let report = transfer(&members[0], &to, to.local(), 1000).await;
    assert_eq!(report.reconnects, 1);
}
