//! Group formation: one process tells each of 1 to 64 others something and waits until all have it; nobody has met
//! before. The costs of both ways are fitted, and with them the threshold of the choice.

use super::setting::{DEADLINE, Effort, Problem, key, loopback, micros};
use pcm_bench::Samples;
use pcm_fabric::{
    Endpoint,
    datagram::{Datagram, DatagramLimits, DatagramService as _},
    hybrid::{Cost, Sample, Tuning},
};
use pcm_proto::handshake::{Identity, Role};
use serde_bytes::ByteBuf;
use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};
use tokio::task::JoinSet;

/// Sizes of a group, and lengths of what it is told.
pub(super) const MEMBERS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
pub(super) const LENGTHS: [usize; 3] = [200, 8 << 10, 48 << 10];

pub(super) async fn run(effort: Effort, series: &mut Vec<Samples>) -> Result<(), Problem> {
    let (mut by_datagram, mut by_connection) = (Vec::<Sample>::new(), Vec::new());
    for members in MEMBERS {
        for length in LENGTHS {
            let (mut datagram, mut connection) = (Vec::new(), Vec::new());
            for _ in 0..effort.groups {
                datagram.push(datagrams(members, length).await?);
                connection.push(connections(members, length).await?);
            }
            for (way, times, samples) in [
                ("datagrams", datagram, &mut by_datagram),
                ("connections", connection, &mut by_connection),
            ] {
                let of = micros(series_name(members, length, way), &times);
                samples.push((members, length, Duration::from_secs_f64(of.median() / 1e6)));
                series.push(of);
            }
        }
    }
    let tuning = Tuning {
        datagram: Cost::fitted(&by_datagram).ok_or("the samples over datagrams fit no cost")?,
        connection: Cost::fitted(&by_connection).ok_or("the samples over connections fit no cost")?,
    };
    for members in MEMBERS {
        let name = format!("crossover, {members} members");
        series.push(Samples::of(name, "bytes", vec![tuning.threshold(members) as f64]));
    }
    Ok(())
}

/// The name of the series of a group.
pub(super) fn series_name(members: usize, length: usize, way: &str) -> String {
    format!("group, {members} members, {length} B, {way}")
}

async fn datagrams(members: usize, length: usize) -> Result<Duration, Problem> {
    let key = key()?;
    let udp = || Datagram::udp(loopback(), &key, 1, DatagramLimits::default());
    let (mut servers, mut addresses) = (JoinSet::new(), Vec::new());
    for _ in 0..members {
        let server = udp().await?;
        addresses.push(server.local());
        servers.spawn(async move { while server.receive().await.is_some() {} });
    }
    let client = udp().await?;
    let begun = Instant::now();
    let mut exchanges = JoinSet::new();
    for address in addresses {
        let client = client.clone();
        exchanges.spawn(async move { client.exchange(address, vec![1; length], DEADLINE).await });
    }
    while let Some(exchange) = exchanges.join_next().await {
        exchange??;
    }
    Ok(begun.elapsed())
}

async fn connections(members: usize, length: usize) -> Result<Duration, Problem> {
    let endpoint = Endpoint::new(key()?, Identity::new(Role::Control));
    let (mut servers, mut addresses) = (JoinSet::new(), Vec::<SocketAddr>::new());
    for _ in 0..members {
        let mut listener = endpoint.listen(loopback()).await?;
        addresses.push(listener.address());
        servers.spawn(async move {
            let Some(link) = listener.accept().await else {
                return;
            };
            let (sender, mut receiver) = link.split();
            // Held until the other side leaves, which it does when it has its answer.
            if receiver.recv::<ByteBuf>().await.is_ok() && sender.send(&1_u8).await.is_ok() {
                let _ = receiver.recv::<u8>().await;
            }
        });
    }
    let begun = Instant::now();
    let mut exchanges = JoinSet::new();
    for address in addresses {
        let endpoint = endpoint.clone();
        exchanges.spawn(async move { tell(&endpoint, address, length).await.ok_or("a link failed") });
    }
    while let Some(exchange) = exchanges.join_next().await {
        exchange??;
    }
    Ok(begun.elapsed())
}

async fn tell(endpoint: &Endpoint, address: SocketAddr, length: usize) -> Option<()> {
    let link = endpoint.connect(&address.to_string(), DEADLINE).await.ok()?;
    let (sender, mut receiver) = link.split();
    sender.send(&ByteBuf::from(vec![1; length])).await.ok()?;
    receiver.recv::<u8>().await.ok()?;
    Some(())
}
