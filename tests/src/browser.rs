//! Pages in a real browser: what their program made of them, and what they look like.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::process::Command;

/// Opens a page from its file in a window of this size; `what` is the flag that says what to do with
/// it. What the browser printed. `directory` takes the browser's own files.
pub fn browse(
    (chromium, directory): (&Path, &Path),
    page: &Path,
    (width, height): (u32, u32),
    what: &str,
) -> String {
    let output = Command::new(chromium)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
        .arg(format!("--window-size={width},{height}"))
        .args(["--virtual-time-budget=4000", what])
        .arg(format!("--user-data-dir={}", directory.join("browser").display()))
        .arg(format!("file://{}", page.display()))
        .output()
        .expect("Chromium starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A picture of a page.
pub struct Picture {
    pixels: Vec<u8>,
    /// Bytes of a pixel.
    size: usize,
}

impl Picture {
    /// Reads a PNG file.
    pub fn read(path: &Path) -> Self {
        let file = BufReader::new(File::open(path).unwrap());
        let mut reader = png::Decoder::new(file).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        pixels.truncate(info.buffer_size());
        Self { pixels, size: info.color_type.samples() }
    }

    /// The part of its pixels, given as red, green, blue, of which this holds: from 0 to 1.
    pub fn share(&self, is: fn(&[u8]) -> bool) -> f64 {
        let all = self.pixels.chunks(self.size);
        all.clone().filter(|pixel| is(pixel)).count() as f64 / all.len() as f64
    }
}
