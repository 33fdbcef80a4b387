//! One message there and the word that it arrived, by datagram and by link, to a peer never met and to a known one.

use super::setting::{DEADLINE, Effort, Problem, key, loopback, micros};
use pcm_bench::Samples;
use pcm_fabric::{
    Endpoint,
    datagram::{Datagram, DatagramLimits, DatagramService as _},
};
use pcm_proto::handshake::{Identity, Role};
use serde_bytes::ByteBuf;
use std::time::Instant;

const LENGTH: usize = 200;

pub(super) async fn run(effort: Effort, series: &mut Vec<Samples>) -> Result<(), Problem> {
    let key = key()?;
    let udp = || Datagram::udp(loopback(), &key, 1, DatagramLimits::default());
    let server = udp().await?;
    let address = server.local();
    let taking = tokio::spawn(async move { while server.receive().await.is_some() {} });
    let (mut cold, mut warm) = (Vec::new(), Vec::new());
    for _ in 0..effort.exchanges / 5 {
        let client = udp().await?;
        let begun = Instant::now();
        client.exchange(address, vec![1; LENGTH], DEADLINE).await?;
        cold.push(begun.elapsed());
    }
    let client = udp().await?;
    for _ in 0..effort.exchanges {
        let begun = Instant::now();
        client.exchange(address, vec![1; LENGTH], DEADLINE).await?;
        warm.push(begun.elapsed());
    }
    taking.abort();
    series.push(micros("exchange, datagram, cold", &cold));
    series.push(micros("exchange, datagram, warm", &warm));

    let endpoint = Endpoint::new(key.clone(), Identity::new(Role::Control));
    let mut listener = endpoint.listen(loopback()).await?;
    let address = listener.address().to_string();
    let answering = tokio::spawn(async move {
        while let Some(link) = listener.accept().await {
            let (sender, mut receiver) = link.split();
            tokio::spawn(async move {
                while receiver.recv::<ByteBuf>().await.is_ok() {
                    if sender.send(&1_u8).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    let (mut cold, mut warm) = (Vec::new(), Vec::new());
    for _ in 0..effort.exchanges / 5 {
        let begun = Instant::now();
        let mut link = endpoint.connect(&address, DEADLINE).await?;
        link.send(&ByteBuf::from(vec![1; LENGTH])).await?;
        link.recv::<u8>().await?;
        cold.push(begun.elapsed());
    }
    let mut link = endpoint.connect(&address, DEADLINE).await?;
    for _ in 0..effort.exchanges {
        let begun = Instant::now();
        link.send(&ByteBuf::from(vec![1; LENGTH])).await?;
        link.recv::<u8>().await?;
        warm.push(begun.elapsed());
    }
    answering.abort();
    series.push(micros("exchange, link over TCP, cold", &cold));
    series.push(micros("exchange, link over TCP, warm", &warm));
    Ok(())
}
