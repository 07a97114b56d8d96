use workflow_sdk::prelude::*;

// Replaces the crate of this name.
mod rand {
    pub fn random() -> u8 {
        4
    }
}

#[workflow]
async fn checkout(_ctx: &Ctx) -> Result<u8> {
    let _ = uuid::Uuid::new_v4();
    let _ = uuid::Uuid::now_v7();
    let sum: u8 = vec![fastrand::u8(..); 2].into_iter().map(|n| n ^ rand::random()).sum();
    Ok(sum)
}

fn main() {}
