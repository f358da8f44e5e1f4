//! Renders of the sample model, and stretches against whole renders.

use serde_json::Map;

use super::sample_model::{marker, test_model};
use super::*;
use crate::turn::{Message, Role};

fn text(model: &Model, ids: &[u32]) -> String {
    let mut bytes = Vec::new();
    model.detokenize(ids, &mut bytes);
    String::from_utf8(bytes).unwrap()
}

#[test]
fn the_sample_model_serves() {
    let model = test_model();
    let messages = [Message::text(Role::System, "S"), Message::text(Role::User, "the user")];
    let ids = model.first(&messages, &[], &Map::new()).unwrap();
    assert_eq!(
        text(&model, &ids),
        "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nthe user<|im_end|>\n<|im_start|>assistant\n"
    );
    assert_eq!(model.markers.close, marker("<|im_end|>"));
    let tail = PriorTail { closed: false, reasoning_open: true };
    let ids = model.stretch(tail, &messages[1..], &[], &Map::new()).unwrap();
    assert_eq!(
        text(&model, &ids),
        "\n</think>\n\n<|im_end|>\n<|im_start|>user\nthe user<|im_end|>\n<|im_start|>assistant\n"
    );
}
