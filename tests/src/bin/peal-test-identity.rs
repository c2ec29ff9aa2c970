//! Claims to be the proc that its environment names, with Peal's own client, and prints the result.
//! Ends at the end of its standard input.
use peal_client::Client;
use std::io::Read;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    match Client::init().await {
        Err(error) => println!("refused: {error}"),
        Ok(client) => {
            println!("admitted as rank {}", client.me().rank);
            std::io::stdin().read_to_end(&mut Vec::new())?;
            client.finalize().await?;
            println!("left");
        }
    }
    Ok(())
}
