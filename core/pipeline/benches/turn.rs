//! The two halves of an exchange around its engine call. `cargo bench -p rollgate-pipeline --features
//! testing --bench turn`.

mod play;

use std::cell::RefCell;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use rollgate_pipeline::exchange::Desk;
use rollgate_pipeline::render::sample_model::test_model;
use serde_json::json;

use play::{Play, ids, reply, request};

const ANSWER: &str = "<think>\nI should look at the file first.\n</think>\n\nLet me see.<tool_call>\n\
    {\"name\": \"edit_file\", \"arguments\": {\"path\": \"src/lib.rs\", \"text\": \"fn a() { 1 }\"}}\n\
    </tool_call>";

fn halves(c: &mut Criterion) {
    let model = Arc::new(test_model());
    let Some(play) = Play::new(model.clone(), Desk::default()) else { return };
    let play = RefCell::new(play);
    let ids = ids(&model, &format!("{ANSWER}<|im_end|>"));
    let answer = reply(&ids);
    let call = json!({"role": "assistant", "reasoning_content": "I should look at the file first.", "content": "Let me see.",
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "edit_file", "arguments": "{\"path\": \"src/lib.rs\", \"text\": \"fn a() { 1 }\"}"}}]});
    let mut messages = vec![json!({"role": "user", "content": "long ".repeat(2_000)})];
    for turn in 0..20 {
        let Some((mut exchange, _)) = play.borrow_mut().begin(&request(&json!(messages))) else {
            return;
        };
        assert!(play.borrow_mut().finish(&mut exchange, &answer), "turn {turn}");
        messages.push(call.clone());
        messages.push(json!({"role": "tool", "tool_call_id": "c1", "content": "ok ".repeat(30)}));
    }
    let last = request(&json!(messages));
    c.bench_function(&format!("exchange/reply of {} ids", ids.len()), |b| {
        b.iter_batched(
            || play.borrow_mut().begin(&last),
            |begun| {
                begun.is_some_and(|(mut exchange, _)| {
                    play.borrow_mut().finish(&mut exchange, &answer)
                })
            },
            BatchSize::PerIteration,
        );
    });
    c.bench_function(&format!("exchange/request of {} bytes", last.len()), |b| {
        b.iter_with_large_drop(|| play.borrow_mut().begin(&last));
    });
}

criterion_group!(benches, halves);
criterion_main!(benches);
