//! A loopback server that answers from a list, and posts to it.

use std::sync::{Arc, Mutex};

use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// What was posted: head and body.
pub(crate) type Seen = Arc<Mutex<Vec<(String, Value)>>>;

/// Answers request after request with `answers`, the last one for ever: status and body. Status 0
/// hangs up.
pub(crate) async fn server(answers: Vec<(u16, &'static str)>) -> (String, Seen) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let seen = Seen::default();
    let kept = seen.clone();
    tokio::spawn(async move {
        let mut answers = answers.into_iter().peekable();
        while let Ok((stream, _)) = listener.accept().await {
            let next = answers.next().unwrap();
            if answers.peek().is_none() {
                answers = vec![next].into_iter().peekable();
            }
            let request = read(stream, next).await;
            kept.lock().unwrap().push(request);
        }
    });
    (url, seen)
}

async fn read(stream: TcpStream, (status, answer): (u16, &str)) -> (String, Value) {
    let mut stream = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        if line.trim().is_empty() {
            break;
        }
        let line = line.to_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    if status != 0 {
        let size = answer.len();
        let text = format!(
            "HTTP/1.1 {status} x\r\nconnection: close\r\ncontent-length: {size}\r\n\r\n{answer}"
        );
        stream.get_mut().write_all(text.as_bytes()).await.unwrap();
    }
    (head, serde_json::from_slice(&body).unwrap())
}

async fn check(answers: Vec<(u16, &'static str)>) -> (Result<String, String>, usize) {
    let (url, seen) = server(answers).await;
    let headers = [("X-Token".to_owned(), "${ROLLGATE_NO_SUCH:-t}".to_owned())].into();
    let posted = post(&url, &headers, &json!({"a": [1]}), Duration::from_secs(10)).await;
    let told = posted.map(|bytes| String::from_utf8(bytes).unwrap()).map_err(|e| e.to_string());
    let seen = seen.lock().unwrap();
    for (head, body) in seen.iter() {
        assert!(head.starts_with("post /hook http/1.1") && head.contains("x-token: t"), "{head}");
        assert_eq!(body, &json!({"a": [1]}));
    }
    (told.map_err(|e| e.replace(&url, "URL")), seen.len())
}

#[tokio::test]
async fn what_is_broken_for_a_while_is_asked_again() {
    assert_eq!(check(vec![(200, "yes")]).await, (Ok("yes".into()), 1));
    assert_eq!(check(vec![(503, ""), (0, ""), (201, "{}")]).await, (Ok("{}".into()), 3));
    let (told, asked) = check(vec![(500, "down")]).await;
    assert_eq!(asked, limits::POST_TRIES as usize);
    let told = told.unwrap_err();
    assert!(told.contains("no answer in 4 tries; the last: status 500: \"down\""), "{told}");
}

#[tokio::test]
async fn a_refusal_is_for_good() {
    let (told, asked) = check(vec![(404, "where?")]).await;
    assert_eq!(told.unwrap_err(), "URL answered with status 404: \"where?\"");
    assert_eq!(asked, 1);
}

#[tokio::test]
async fn nobody_there_is_told_within_the_deadline() {
    let none = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let url = format!("http://{none}/");
    let started = Instant::now();
    let posted = post(&url, &BTreeMap::new(), &json!(1), Duration::from_secs(1)).await;
    assert!(matches!(posted, Err(PostError::Unreachable { .. })), "{posted:?}");
    assert!(started.elapsed() < Duration::from_secs(3));
}
