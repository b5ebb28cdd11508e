//! Log lines on the original stderr, which fd 2 no longer is.

use std::fs::File;
use std::io::Write;

use log::{LevelFilter, Log, Metadata, Record};

struct Logger(File);

impl Log for Logger {
    fn enabled(&self, _: &Metadata) -> bool {
        true
    }

    fn log(&self, record: &Record) {
        // One write a line; a stderr that is gone is nobody's concern.
        let line = format!(
            "topup: {}: {}\n",
            record.level().as_str().to_lowercase(),
            record.args()
        );
        let _ = (&self.0).write_all(line.as_bytes());
    }

    fn flush(&self) {}
}

/// Sends log lines up to `level` to `file`, panics of ours included. Call once.
pub fn install(file: File, level: LevelFilter) {
    if log::set_boxed_logger(Box::new(Logger(file))).is_ok() {
        log::set_max_level(level);
        std::panic::set_hook(Box::new(|panic| log::error!("{panic}")));
    }
}
