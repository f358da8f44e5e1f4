//! Real agents from their registries, on scripted engines.

mod claude_code;
mod codex;
mod slow_engine;
