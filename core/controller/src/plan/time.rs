//! What time does to a plan: deadlines, budgets, and when to come back.

use super::{Bug, Command, Phase, Plan, Tick, Why};

impl Plan {
    /// What has become due since the last event.
    pub(super) fn pass_time(&mut self, commands: &mut Vec<Command>) {
        self.queue.wake(self.now);
        while let Some(&(at, item)) = self.late.first().filter(|(at, _)| *at <= self.now) {
            self.late.remove(&(at, item));
            if !self.items[item].cancelled {
                commands.push(Command::Cancel(self.items[item].slot, Why::Late));
            }
        }
        if self.policy.budget.time_ms.is_some_and(|most| self.now.0 >= most) {
            let why = "the job's time is used up".to_owned();
            self.stop_if_more(why, Phase::Aborting, commands);
        }
    }

    /// Stops where tries or tokens are used up and there is more to do.
    pub(super) fn watch_budget(&mut self, commands: &mut Vec<Command>) {
        let budget = self.policy.budget;
        let used = |most: Option<u64>, used: u64| most.is_some_and(|most| used >= most);
        let what = match () {
            () if used(budget.tries, self.tries) => "attempts",
            () if used(budget.tokens, self.tokens) => "tokens",
            () => return,
        };
        if self.queue.len() > 0 {
            let why = format!("the {what} that the job may use are used up");
            self.stop_if_more(why, Phase::Draining, commands);
        }
    }

    fn stop_if_more(&mut self, why: String, phase: Phase, commands: &mut Vec<Command>) {
        if self.phase < phase && !self.done() {
            self.stop(why, phase, commands);
        }
    }

    /// A job that is held and in which nothing runs does not wait for ever.
    pub(super) fn watch_idleness(&mut self, commands: &mut Vec<Command>) {
        let idle = self.held.is_some() && self.running == 0 && !self.done();
        if !idle {
            self.idle_since = None;
            return;
        }
        let since = *self.idle_since.get_or_insert(self.now);
        if self.now >= since.after(self.policy.hold_ms) {
            let held = self.held.clone().unwrap_or_default();
            self.stop(
                format!("nothing could be started for too long: {held}"),
                Phase::Draining,
                commands,
            );
        }
    }

    /// Asks to be woken when time alone will change something.
    pub(super) fn ask_for_time(&mut self, commands: &mut Vec<Command>) {
        let next = self.next_change().filter(|_| !self.planted.on(Bug::WakeForgotten));
        if next != self.wake {
            self.wake = next;
            commands.extend(next.map(Command::Wake));
        }
    }

    fn next_change(&self) -> Option<Tick> {
        if self.done() {
            return None;
        }
        let running = self.phase == Phase::Running;
        let later = self.queue.next().filter(|_| running);
        let token = self.bucket.as_ref().map(|bucket| bucket.next());
        let token =
            token.filter(|at| *at > self.now && self.queue.has_ready() && self.has_places(0));
        let late = self.late.first().map(|(at, _)| *at);
        let time = self.policy.budget.time_ms.map(Tick).filter(|at| *at > self.now);
        let held = self.idle_since.map(|since| since.after(self.policy.hold_ms));
        [later, token, late, time, held.filter(|_| running)].into_iter().flatten().min()
    }
}
