//! One command from its start to its report, over as many streams as it takes.
//!
//! The command runs under a small runner in the sandbox. It is found again by its tag, and what it
//! came to lies in a file there, so that a lost stream loses nothing. A start whose answer was lost
//! is repeated: the runner runs a command once, however often it is started.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::daemon::{Daemon, Read, Trouble};
use super::limits;
use super::lives::Life;
use super::pause::Pauses;
use super::script::{self, End, PARTS, Report};
use super::stream::{Event, Events, Start};
use crate::{BackendError, Exec, Exit};

/// What a command needs of its sandbox.
#[derive(Clone, Debug)]
pub(super) struct Ground {
    pub daemon: Arc<Daemon>,
    pub life: Arc<Life>,
    pub shell: Arc<[String]>,
    pub keepalive: Duration,
    pub reattach: Duration,
    pub kill_grace: Duration,
}

/// One command under its runner.
#[derive(Debug)]
struct Run<'a> {
    ground: &'a Ground,
    tag: String,
    argv: Vec<String>,
    env: &'a [(String, String)],
    /// Directory of its report.
    dir: String,
    limit: Duration,
}

/// What following a command came to.
enum Came {
    /// Its report.
    To(Vec<u8>),
    /// The sandbox, or our way to it, is lost.
    Apart(BackendError),
}

impl Ground {
    /// An error that says which sandbox, what was done, and what is known of the sandbox.
    pub fn error(&self, what: &str, why: &dyn std::fmt::Display) -> BackendError {
        let Life { id, until, .. } = &*self.life;
        let hint = match (self.life.gone(), Instant::now() >= *until) {
            (_, true) => "; its longest life is over (raise the spec's ttl)",
            (Some(_), _) => "; it is gone, nothing is left to clean up",
            (None, false) => "",
        };
        BackendError::Unusable(format!("e2b sandbox {id}: cannot {what}: {why}{hint}"))
    }

    fn shelled(&self, script: String, args: &[&str]) -> Vec<String> {
        let mut argv = self.shell.to_vec();
        argv.push(script);
        argv.push("rollgate".to_owned());
        argv.extend(args.iter().map(|arg| (*arg).to_owned()));
        argv
    }

    /// Runs a script of ours to its end: its exit code and its output. It must bear to be run
    /// twice.
    pub async fn script(
        &self,
        script: &str,
        args: &[&str],
        user: Option<&str>,
        limit: Duration,
    ) -> Result<(i32, Vec<u8>), Trouble> {
        let argv = self.shelled(script.to_owned(), args);
        let tag = super::pause::unique()
            .map_err(|error| Trouble::refused("internal", error.to_string()))?;
        let start = Start { argv: &argv, env: &[], tag: &tag, limit, user };
        let running = async {
            let mut events = self.daemon.start(&start, self.keepalive).await?;
            let (mut output, mut ended) = (Vec::new(), None);
            while let Some(event) = events.next().await? {
                match event {
                    Event::Stdout(bytes) | Event::Stderr(bytes)
                        if output.len() + bytes.len() <= limits::REPORT_BYTES =>
                    {
                        output.extend(bytes);
                    }
                    Event::Ended { code, .. } => ended = Some(code),
                    _ => {}
                }
            }
            match ended {
                Some(code) => Ok((code, output)),
                None => Err(Trouble::passing("a stream ended without the end of its process")),
            }
        };
        let late = || Trouble::passing(format!("a script of ours took over {limit:?}"));
        tokio::time::timeout(limit, running).await.unwrap_or_else(|_| Err(late()))
    }

    /// Does something that may be done twice until it works or the sandbox is given up.
    pub async fn persist<T, D>(
        &self,
        what: &str,
        within: Duration,
        mut deed: impl FnMut() -> D,
    ) -> Result<T, BackendError>
    where
        D: Future<Output = Result<T, Trouble>> + Send,
    {
        let (begun, mut pauses) = (Instant::now(), Pauses::new());
        loop {
            let trouble = tokio::select! {
                biased;
                why = self.life.death() => return Err(self.error(what, &why)),
                done = deed() => match done {
                    Ok(done) => return Ok(done),
                    Err(trouble) => trouble,
                },
            };
            let wait = match &trouble {
                Trouble::Passing { wait, .. } => wait.unwrap_or_else(|| pauses.next()),
                Trouble::Gone(why) => {
                    self.life.lost(why);
                    return Err(self.error(what, &trouble));
                }
                Trouble::Refused { .. } => return Err(self.error(what, &trouble)),
            };
            if begun.elapsed() + wait > within {
                return Err(self.error(what, &format!("{trouble} (for {within:?})")));
            }
            tokio::time::sleep(wait).await;
        }
    }
}

/// Where and as what a command runs.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub tag: String,
    /// Directory of its report.
    pub dir: String,
    /// Directory of an earlier command, to be removed.
    pub old: Option<String>,
    pub cwd: String,
}

/// Runs a command. `Err` with `true`: its sandbox is of no use any more.
pub(super) async fn run(
    ground: &Ground,
    exec: Exec,
    place: Place,
) -> Result<Exit, (BackendError, bool)> {
    let Exec { argv, env, stdin, timeout, output_cap_bytes, .. } = exec;
    if argv.is_empty() {
        let what = "a command needs at least a program".to_owned();
        return Err((BackendError::Unusable(what), false));
    }
    let cap = output_cap_bytes.min(limits::OUTPUT_BYTES);
    if let Some(bytes) = &stdin {
        let path = format!("{}.in", place.dir);
        let written =
            ground.persist("write an input", ground.reattach, || ground.daemon.write(&path, bytes));
        written.await.map_err(|error| (error, false))?;
    }
    let program = argv.first().cloned().unwrap_or_default();
    let (head, tail) = (cap / 2, cap - cap / 2);
    let numbers = [head, tail, limits::INLINE_BYTES].map(|number| number.to_string());
    let mut args = vec![place.dir.as_str(), &place.tag];
    args.extend(numbers.iter().map(String::as_str));
    args.extend([place.cwd.as_str(), if stdin.is_some() { "1" } else { "0" }]);
    args.push(place.old.as_deref().unwrap_or("-"));
    args.extend(argv.iter().map(String::as_str));
    let run = Run {
        ground,
        tag: place.tag.clone(),
        argv: ground.shelled(script::run(), &args),
        env: &env,
        dir: place.dir.clone(),
        limit: timeout + limits::SERVER_MARGIN,
    };
    let guard = KillOnDrop { ground: Some(ground.clone()), tag: place.tag.clone() };
    let ended = run.to_its_end(timeout).await;
    guard.disarm();
    let (bytes, took, timed_out) = ended?;
    let exit = run.exit(&bytes, took, timed_out, &program, &place.cwd).await;
    exit.map_err(|error| (error, false))
}

impl Run<'_> {
    /// Its report, how long it took, and whether its time was up.
    async fn to_its_end(
        &self,
        timeout: Duration,
    ) -> Result<(Vec<u8>, Duration, bool), (BackendError, bool)> {
        let begun = Instant::now();
        let mut following = pin!(self.follow());
        let came = tokio::time::timeout(timeout, &mut following).await;
        let took = begun.elapsed();
        let came = match came {
            Ok(came) => came,
            Err(_) => {
                kill(self.ground, &self.tag).await;
                let grace = self.ground.kill_grace;
                match tokio::time::timeout(grace, &mut following).await {
                    Ok(Came::To(report)) => return Ok((report, took, true)),
                    Ok(came) => came,
                    Err(_) => {
                        let why = format!("it was killed {grace:?} ago and has not ended");
                        return Err((self.ground.error("end a command", &why), true));
                    }
                }
            }
        };
        match came {
            Came::To(report) => Ok((report, took, false)),
            Came::Apart(error) => Err((error, false)),
        }
    }

    /// Starts it, and stays with it over lost streams until its report is here.
    async fn follow(&self) -> Came {
        let (mut started, mut attach) = (false, false);
        let mut last_word = Instant::now();
        let mut pauses = Pauses::new();
        loop {
            let step = self.step(attach, &mut started, &mut last_word);
            let trouble = tokio::select! {
                biased;
                why = self.ground.life.death() => return self.apart(&why),
                step = step => match step {
                    Ok(Some(report)) => return Came::To(report),
                    Ok(None) => Trouble::passing("its report is not there yet"),
                    Err(trouble) => trouble,
                },
            };
            let wait = match &trouble {
                Trouble::Gone(why) => {
                    self.ground.life.lost(why);
                    return self.apart(&trouble);
                }
                Trouble::Refused { .. } if attach && trouble.is_absent() => {
                    match self.absent(started).await {
                        Absent::Report(report) => return Came::To(report),
                        Absent::Never => {
                            attach = false;
                            continue;
                        }
                        Absent::Vanished => {
                            return self.apart(&"its runner vanished without a report");
                        }
                        Absent::Unknown(why) => why,
                    }
                }
                Trouble::Refused { .. } => return self.apart(&trouble),
                Trouble::Passing { wait, .. } => *wait,
            };
            // Attaching also tells whether the sandbox lives.
            attach = true;
            let silent = last_word.elapsed();
            if silent > self.ground.reattach {
                let why = format!("{trouble}; no word of it for {:.0} s", silent.as_secs_f64());
                return self.apart(&why);
            }
            tracing::debug!(tag = self.tag, %trouble, "the stream of a command is lost");
            tokio::time::sleep(wait.unwrap_or_else(|| pauses.next())).await;
        }
    }

    fn apart(&self, why: &dyn std::fmt::Display) -> Came {
        Came::Apart(self.ground.error("run a command", why))
    }

    /// One stream: its report, if this one brought it along or it lies there now.
    async fn step(
        &self,
        attach: bool,
        started: &mut bool,
        last_word: &mut Instant,
    ) -> Result<Option<Vec<u8>>, Trouble> {
        let Ground { daemon, keepalive, .. } = self.ground;
        let mut events = if attach {
            daemon.attach(&self.tag, *keepalive).await?
        } else {
            let Self { argv, env, tag, limit, .. } = self;
            let start = Start { argv, env, tag, limit: *limit, user: None };
            daemon.start(&start, *keepalive).await?
        };
        *last_word = Instant::now();
        let heard = self.hear(&mut events, started, last_word).await?;
        if !attach && heard.code == 0 && Report::read(&heard.stdout).is_some() {
            return Ok(Some(heard.stdout));
        }
        if heard.code == script::BEGUN && !attach {
            // The start whose answer was lost had come through.
            return Err(Trouble::passing("it runs already"));
        }
        match self.report().await? {
            Some(report) => Ok(Some(report)),
            None => {
                let said = String::from_utf8_lossy(&heard.stderr).into_owned();
                let Heard { code, error, .. } = heard;
                let error = error.unwrap_or_default();
                let why = format!("its runner ended with {code} {error} {}", said.trim());
                Err(Trouble::refused("runner", why))
            }
        }
    }

    async fn hear(
        &self,
        events: &mut Events,
        started: &mut bool,
        last_word: &mut Instant,
    ) -> Result<Heard, Trouble> {
        let mut heard = Heard::default();
        let mut ended = false;
        while let Some(event) = events.next().await? {
            *last_word = Instant::now();
            match event {
                Event::Started => *started = true,
                Event::Stdout(bytes) => heard.take_out(bytes),
                Event::Stderr(bytes) => heard.take_err(bytes),
                Event::Alive => {}
                Event::Ended { code, error } => {
                    (heard.code, heard.error, ended) = (code, error, true);
                }
            }
        }
        if ended {
            Ok(heard)
        } else {
            Err(Trouble::passing("the stream ended without its process"))
        }
    }

    /// Its report, if it lies there.
    async fn report(&self) -> Result<Option<Vec<u8>>, Trouble> {
        let path = format!("{}/report", self.dir);
        match self.ground.daemon.read(&path, limits::REPORT_BYTES).await? {
            Read::Contents(bytes) => Ok(Some(bytes)),
            Read::Absent => Ok(None),
            Read::TooLarge => Err(Trouble::refused("report", "its report is too large")),
        }
    }

    /// The daemon does not know the process: what became of it?
    async fn absent(&self, started: bool) -> Absent {
        match self.report().await {
            Ok(Some(report)) => Absent::Report(report),
            Ok(None) if started => Absent::Vanished,
            // Should it be on its way after all, it finds that it was run already.
            Ok(None) => Absent::Never,
            Err(Trouble::Passing { wait, .. }) => Absent::Unknown(wait),
            Err(_) => Absent::Unknown(None),
        }
    }

    /// What its report means, with the output that lies in files fetched.
    async fn exit(
        &self,
        bytes: &[u8],
        took: Duration,
        timed_out: bool,
        program: &str,
        cwd: &str,
    ) -> Result<Exit, BackendError> {
        let ground = self.ground;
        let Some((report, parts)) = Report::read(bytes) else {
            return Err(ground.error("read a command's report", &"it is not whole"));
        };
        let code = match report.end {
            End::Code(code) => Some(code),
            End::NoDirectory => {
                return Err(ground.error(&format!("start `{program}`"), &format!("no {cwd}")));
            }
            End::NoProgram => {
                let why = format!("is it installed in the template and on PATH? (in {cwd})");
                return Err(ground.error(&format!("start `{program}`"), &why));
            }
        };
        if report.spoiled {
            let why = "it could not be written: its disk is full";
            return Err(ground.error("keep a command's output", &why));
        }
        let [mut stdout, out_tail, mut stderr, err_tail] = match parts {
            Some(parts) => parts,
            None => self.fetch(report.parts).await?,
        };
        stdout.extend(out_tail);
        stderr.extend(err_tail);
        let code = if timed_out { None } else { code };
        Ok(Exit { code, timed_out, stdout, stderr, cut_bytes: report.cut_bytes, took })
    }

    async fn fetch(&self, sizes: [usize; 4]) -> Result<[Vec<u8>; 4], BackendError> {
        let mut parts = [(); 4].map(|()| Vec::new());
        for ((part, name), size) in parts.iter_mut().zip(PARTS).zip(sizes) {
            if size == 0 {
                continue;
            }
            let path = format!("{}/{name}", self.dir);
            let read = self.ground.persist("fetch output", self.ground.reattach, || {
                self.ground.daemon.read(&path, size)
            });
            match read.await? {
                Read::Contents(bytes) if bytes.len() == size => *part = bytes,
                _ => return Err(self.ground.error("fetch output", &format!("{path} has changed"))),
            }
        }
        Ok(parts)
    }
}

enum Absent {
    Report(Vec<u8>),
    /// It was never started.
    Never,
    Vanished,
    Unknown(Option<Duration>),
}

#[derive(Debug, Default)]
struct Heard {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    code: i32,
    error: Option<String>,
}

impl Heard {
    /// A report is bounded; what is more is none.
    fn take_out(&mut self, bytes: Vec<u8>) {
        if self.stdout.len() + bytes.len() <= limits::REPORT_BYTES {
            self.stdout.extend(bytes);
        }
    }

    fn take_err(&mut self, bytes: Vec<u8>) {
        if self.stderr.len() + bytes.len() <= limits::REPORT_BYTES {
            self.stderr.extend(bytes);
        }
    }
}

/// Kills the tree of a command. What cannot be reached is left to the end of the sandbox.
async fn kill(ground: &Ground, tag: &str) {
    for _ in 0..limits::KILL_TRIES {
        match ground.script(&script::kill(), &[tag], None, ground.kill_grace).await {
            Ok(_) => return,
            Err(Trouble::Gone(why)) => return ground.life.lost(&why),
            Err(error) => tracing::warn!(%error, tag, "a command that is late is not killed yet"),
        }
    }
}

/// Kills the tree of a command whose waiter went away.
struct KillOnDrop {
    ground: Option<Ground>,
    tag: String,
}

impl KillOnDrop {
    fn disarm(mut self) {
        self.ground = None;
    }
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let (Some(ground), tag) = (self.ground.take(), std::mem::take(&mut self.tag)) else {
            return;
        };
        // Without a runtime the program is about to end, and the sandbox with it.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { kill(&ground, &tag).await });
        }
    }
}
