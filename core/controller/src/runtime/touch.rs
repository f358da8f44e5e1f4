//! Whether sandboxes reach the gateway at all: tried once, from the first one.

use rollgate_backends::{Exec, Sandbox};
use tokio::sync::Mutex;

use super::{Cancel, Halt, guard};
use crate::limits;
use crate::outcome::Reason;
use crate::reach::BaseUrls;

/// Code of the reason that ends a job: no sandbox of it would reach the gateway.
pub const UNREACHABLE: &str = "gateway_unreachable";

/// Asks for the URL with whatever the sandbox has. Ends with 0 if it answers, with 77 if there is
/// nothing to ask with.
const ASK: &str = r#"url=$1
if command -v curl >/dev/null 2>&1; then exec curl -fsS -m 15 -o /dev/null "$url"; fi
if command -v wget >/dev/null 2>&1; then exec wget -q -T 15 -O /dev/null "$url"; fi
if command -v python3 >/dev/null 2>&1; then
  exec python3 -c 'import sys, urllib.request as u; u.urlopen(sys.argv[1], timeout=15)' "$url"
fi
if command -v node >/dev/null 2>&1; then
  exec node -e 'fetch(process.argv[1]).then(r => process.exit(r.ok ? 0 : 1), e => { console.error(String(e)); process.exit(1) })' "$url"
fi
case $url in http://*) ;; *) exit 77 ;; esac
if command -v bash >/dev/null 2>&1; then
  rest=${url#http://} host=${rest%%/*}
  exec bash -c 'exec 3<>"/dev/tcp/$1/$2" && printf "GET /healthz HTTP/1.1\r\nhost: $1\r\nconnection: close\r\n\r\n" >&3 && read -r -t 15 line <&3 && case $line in *" 200 "*) ;; *) echo "$line" >&2; exit 1 ;; esac' ask "${host%:*}" "${host##*:}"
fi
exit 77
"#;

/// What the first sandbox found out; the others wait for it.
#[derive(Debug, Default)]
pub(super) struct Touch(Mutex<bool>);

impl Touch {
    /// Fails where the gateway is not reached. Costs nothing once it was.
    pub(super) async fn gateway(
        &self,
        sandbox: &dyn Sandbox,
        urls: &BaseUrls,
        cancel: &Cancel,
    ) -> Result<(), Halt> {
        let deadline = (limits::REACH + limits::REACH_PAUSE).saturating_mul(limits::REACH_TRIES);
        let wait = async { Ok(self.0.lock().await) };
        let mut reached = guard("reach", deadline * 2, cancel, wait).await?;
        if !*reached {
            let ask = ask(sandbox, &urls.anthropic);
            guard("reach", deadline, cancel, ask).await?;
            *reached = true;
        }
        Ok(())
    }
}

async fn ask(sandbox: &dyn Sandbox, root: &str) -> Result<(), Reason> {
    let url = format!("{root}/healthz");
    let mut said = String::new();
    for number in 0..limits::REACH_TRIES {
        if number > 0 {
            tokio::time::sleep(limits::REACH_PAUSE).await;
        }
        let exec = Exec {
            argv: ["sh", "-c", ASK, "reach", &url].map(str::to_owned).to_vec(),
            env: Vec::new(),
            cwd: None,
            stdin: None,
            timeout: limits::REACH,
            output_cap_bytes: 4 << 10,
        };
        // That it runs no command says nothing about the gateway.
        let exit = sandbox.exec(exec).await.map_err(|e| Reason::new("sandbox", e))?;
        match exit.code {
            Some(0) => return Ok(()),
            Some(77 | 127) => {
                let id = sandbox.id();
                tracing::warn!(sandbox = id, "has nothing to ask {url} with: not checked");
                return Ok(());
            }
            _ => said = String::from_utf8_lossy(&exit.stderr).trim().to_owned(),
        }
    }
    Err(Reason::new(
        UNREACHABLE,
        format_args!(
            "sandboxes do not reach the gateway at {root}, so no agent could: let the gateway listen \
             where they see it, or say how they see it (--reach URL). The sandbox says: {said:?}"
        ),
    ))
}
