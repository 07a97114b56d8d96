//! `allow` switches off each rule.
#![deny(warnings)]
#![allow(dead_code, reason = "the test is that this module compiles")]

use std::collections::HashMap;
use std::time::{Duration, Instant};
use workflow_sdk::prelude::*;

#[workflow(allow(wall_clock))]
async fn wall_clock(_ctx: &Ctx) -> Result<bool> {
    Ok(Instant::now().elapsed().is_zero())
}

#[workflow(allow(randomness, spawn))]
async fn randomness_and_spawn(_ctx: &Ctx) -> Result<u8> {
    Ok(tokio::spawn(async { fastrand::u8(..) }).await?)
}

#[workflow(name = "waits", allow(tokio_time, blocking_sleep,))]
async fn waits(_ctx: &Ctx) -> Result<()> {
    std::thread::sleep(Duration::ZERO);
    tokio::time::sleep(Duration::ZERO).await;
    Ok(())
}

#[workflow(allow(unbiased_select))]
async fn unbiased_select(ctx: &Ctx) -> Result<()> {
    tokio::select! {
        first = ctx.sleep(Duration::ZERO) => first,
        second = ctx.sleep(Duration::ZERO) => second,
    }?;
    Ok(())
}

#[workflow(allow(environment, files, network))]
async fn environment_files_and_network(_ctx: &Ctx) -> Result<bool> {
    let environment = std::env::var("X").is_ok();
    let files = std::fs::read("X").is_ok();
    Ok(environment && files && std::net::TcpStream::connect("localhost:0").is_ok())
}

#[workflow(allow(map_order))]
async fn map_order(_ctx: &Ctx) -> Result<u64> {
    let mut last = 0;
    for (_, value) in HashMap::from([(1, 2)]) {
        last = value;
    }
    Ok(last)
}

#[workflow(allow(static_mut))]
async fn static_mut(_ctx: &Ctx) -> Result<()> {
    static mut COUNT: u64 = 0;
    unsafe { COUNT += 1 };
    Ok(())
}
