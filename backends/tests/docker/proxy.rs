//! A socket in front of the engine's that can lose answers, fall silent, or go away.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;

/// What becomes of a request whose first line holds the word.
#[derive(Clone, Debug)]
pub enum Trick {
    /// The engine gets it; its answer is lost and the connection with it.
    LoseAnswer(&'static str),
    /// The engine never gets it, and nobody says so.
    Swallow(&'static str),
    /// The engine gets it after so many milliseconds, and nobody hears of it.
    Delay(&'static str, u64),
    /// The engine refuses it, with this status.
    Refuse(&'static str, u16),
}

impl Trick {
    fn word(&self) -> &'static str {
        match self {
            Self::LoseAnswer(word)
            | Self::Swallow(word)
            | Self::Delay(word, _)
            | Self::Refuse(word, _) => word,
        }
    }
}

/// The socket; gone when it is dropped.
pub struct Proxy {
    dir: tempfile::TempDir,
    shared: Arc<Shared>,
    accepting: tokio::task::JoinHandle<()>,
    open: watch::Sender<bool>,
}

struct Shared {
    upstream: PathBuf,
    tricks: Mutex<Vec<Trick>>,
    asked: Mutex<Vec<String>>,
    /// First lines of the requests that are open, each time that one was added.
    open: Mutex<Opened>,
}

#[derive(Default)]
struct Opened {
    now: Vec<String>,
    history: Vec<Vec<String>>,
}

impl Proxy {
    pub fn new(upstream: PathBuf) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join("sock")).unwrap();
        let shared = Arc::new(Shared {
            upstream,
            tricks: Mutex::default(),
            asked: Mutex::default(),
            open: Mutex::default(),
        });
        let (open, opened) = watch::channel(true);
        let serving = shared.clone();
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (serving, mut opened) = (serving.clone(), opened.clone());
                tokio::spawn(async move {
                    tokio::select! {
                        _ = serving.serve(client) => {}
                        _ = opened.wait_for(|open| !open) => {}
                    }
                });
            }
        });
        Self { dir, shared, accepting, open }
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("sock")
    }

    /// Plays a trick once.
    pub fn play(&self, trick: Trick) {
        self.shared.tricks.lock().unwrap().push(trick);
    }

    /// How many requests had this in their first line.
    pub fn asked(&self, word: &str) -> usize {
        self.shared.asked.lock().unwrap().iter().filter(|line| line.contains(word)).count()
    }

    /// How many such requests were open together, at the most.
    pub fn most_at_once(&self, word: &str) -> usize {
        let opened = self.shared.open.lock().unwrap();
        let count = |lines: &Vec<String>| lines.iter().filter(|line| line.contains(word)).count();
        opened.history.iter().map(count).max().unwrap_or(0)
    }

    /// How many connections are open.
    pub fn open_now(&self) -> usize {
        self.shared.open.lock().unwrap().now.len()
    }

    /// Cuts every connection, and refuses new ones.
    pub fn vanish(&self) {
        self.accepting.abort();
        self.open.send_replace(false);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.vanish();
    }
}

/// Ends the line's entry among the open ones.
struct Closing<'a>(&'a Shared, String);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        let now = &mut self.0.open.lock().unwrap().now;
        let at = now.iter().position(|line| *line == self.1);
        at.map(|at| now.remove(at));
    }
}

impl Shared {
    fn opened(&self, line: &str) -> Closing<'_> {
        let mut opened = self.open.lock().unwrap();
        opened.now.push(line.to_owned());
        let now = opened.now.clone();
        opened.history.push(now);
        Closing(self, line.to_owned())
    }

    /// One connection; the client makes one for each request.
    async fn serve(&self, mut client: UnixStream) -> std::io::Result<()> {
        let mut head = vec![0; 64 << 10];
        let count = client.read(&mut head).await?;
        head.truncate(count);
        let line = String::from_utf8_lossy(&head).lines().next().unwrap_or_default().to_owned();
        self.asked.lock().unwrap().push(line.clone());
        let _open = self.opened(&line);
        let trick = {
            let mut tricks = self.tricks.lock().unwrap();
            let found = tricks.iter().position(|trick| line.contains(trick.word()));
            found.map(|at| tricks.remove(at))
        };
        if trick.is_some() {
            // Its body may come in pieces of its own.
            let mut more = [0; 4096];
            let pause = std::time::Duration::from_millis(50);
            while let Ok(Ok(count @ 1..)) =
                tokio::time::timeout(pause, client.read(&mut more)).await
            {
                head.extend_from_slice(&more[..count]);
            }
        }
        match &trick {
            Some(Trick::Swallow(_)) => std::future::pending().await,
            Some(Trick::Refuse(_, status)) => {
                let body = r#"{"message":"made up by a test"}"#;
                let length = body.len();
                let answer =
                    format!("HTTP/1.1 {status} No\r\ncontent-length: {length}\r\n\r\n{body}");
                return client.write_all(answer.as_bytes()).await;
            }
            Some(Trick::Delay(_, millis)) => {
                // The client is left alone at once; the engine hears of it later.
                let (upstream, millis) = (self.upstream.clone(), *millis);
                tokio::spawn(async move {
                    tokio::time::sleep(std::time::Duration::from_millis(millis)).await;
                    let mut engine = UnixStream::connect(upstream).await.unwrap();
                    engine.write_all(&head).await.unwrap();
                    let _ = engine.read(&mut [0; 1024]).await;
                });
                return Ok(());
            }
            Some(Trick::LoseAnswer(_)) | None => {}
        }
        let mut engine = UnixStream::connect(&self.upstream).await?;
        engine.write_all(&head).await?;
        if trick.is_some() {
            let mut answer = [0; 1024];
            let count = engine.read(&mut answer).await?;
            let done = [&b"HTTP/1.1 2"[..], b"HTTP/1.1 101 "];
            assert!(done.iter().any(|done| answer[..count].starts_with(done)), "it was not done");
            return Ok(());
        }
        tokio::io::copy_bidirectional(&mut client, &mut engine).await?;
        Ok(())
    }
}
