use std::net::TcpStream;
use workflow_sdk::prelude::*;

// Replaces the crate of this name.
mod reqwest {
    pub async fn get(_url: &str) {}
}

#[workflow]
async fn checkout(_ctx: &Ctx) -> Result<bool> {
    reqwest::get("http://localhost/").await;
    Ok(TcpStream::connect("localhost:80").is_ok())
}

fn main() {}
