//! The figures, with their targets.

#[derive(Default)]
pub struct Table {
    rows: Vec<String>,
    missed: bool,
}

impl Table {
    pub fn ratio(&mut self, what: &str, ours: f64, theirs: f64, target: Option<f64>) {
        let ratio = ours / theirs;
        let target = self.target(ratio, target);
        self.rows.push(format!(
            "| {what} | {ours:.2} | {theirs:.2} | {ratio:.2} | {target} |"
        ));
        println!("{}", self.rows.last().expect("just pushed"));
    }

    pub fn size(&mut self, what: &str, megabytes: f64, limit: f64) {
        let target = self.target(megabytes, Some(limit));
        self.rows
            .push(format!("| {what} (MB) | {megabytes:.1} | | | {target} |"));
        println!("{}", self.rows.last().expect("just pushed"));
    }

    pub fn limit(&mut self, what: &str, milliseconds: f64, limit: f64) {
        let target = self.target(milliseconds, Some(limit));
        self.rows
            .push(format!("| {what} | {milliseconds:.2} | | | {target} |"));
        println!("{}", self.rows.last().expect("just pushed"));
    }

    fn target(&mut self, value: f64, target: Option<f64>) -> String {
        let Some(target) = target else {
            return "".into();
        };
        // As precise as it is printed.
        let met = (value * 100.0).round() <= target * 100.0;
        self.missed |= !met;
        format!("≤ {target}{}", if met { "" } else { " MISSED" })
    }

    /// False if a target was missed.
    pub fn print(&self) -> bool {
        println!("\n| | topup | plain | ratio | target |\n|---|---|---|---|---|");
        for row in &self.rows {
            println!("{row}");
        }
        !self.missed && !self.rows.is_empty()
    }
}
