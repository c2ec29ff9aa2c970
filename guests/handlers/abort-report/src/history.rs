//! Last events of jobs, and the usage of procs when they were last seen, in bounded memory.
use peal_sdk::Info;
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

/// Maximum number of jobs.
const MAX_JOBS: usize = 256;

/// Maximum number of procs of a job whose usage is kept.
const MAX_PROCS: usize = 64;

/// Usage of a proc at a time.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample {
    /// Time since the epoch.
    pub time: Duration,
    /// Usage, as the host measured it.
    pub usage: Vec<Info>,
}

/// Remembered facts of one job.
#[derive(Default, Debug)]
pub struct Job {
    /// Lines of events, oldest first.
    pub events: VecDeque<String>,
    /// True once an abnormal end has been reported.
    pub is_reported: bool,
    samples: BTreeMap<u32, Sample>,
}

impl Job {
    /// Adds the line of an event. Beyond the limit the oldest one is removed.
    pub fn add(&mut self, line: String, limit: usize) {
        self.events.push_back(line);
        while self.events.len() > limit {
            self.events.pop_front();
        }
    }

    /// Returns the usage of the proc of a rank.
    pub fn sample(&self, rank: u32) -> Option<&Sample> {
        self.samples.get(&rank)
    }

    /// Keeps the usage of a proc, in the place of an earlier one. Beyond the limit other procs are not kept.
    pub fn keep(&mut self, rank: u32, sample: Sample) {
        if self.samples.len() < MAX_PROCS || self.samples.contains_key(&rank) {
            self.samples.insert(rank, sample);
        }
    }
}

/// Job and its namespace.
struct NamedJob {
    nspace: String,
    job: Job,
}

/// Jobs, the latest one last.
#[derive(Default)]
pub struct History {
    jobs: VecDeque<NamedJob>,
}

impl History {
    /// Returns a job, which becomes the latest one. Beyond the limit the job is removed that was not seen for
    /// the longest time.
    pub fn job(&mut self, nspace: &str) -> &mut Job {
        let known = self.jobs.iter().position(|named| named.nspace == nspace);
        let job = known.and_then(|index| self.jobs.remove(index));
        if self.jobs.len() == MAX_JOBS {
            self.jobs.pop_front();
        }
        let job = job.unwrap_or_else(|| NamedJob {
            nspace: nspace.to_owned(),
            job: Job::default(),
        });
        &mut self.jobs.push_back_mut(job).job
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_that_was_not_seen_for_longest_is_forgotten() {
        let mut history = History::default();
        for number in 0..MAX_JOBS {
            history.job(&number.to_string()).is_reported = true;
        }
        assert!(history.job("0").is_reported);
        assert!(!history.job("new").is_reported);
        assert!(history.job("0").is_reported, "it was seen lately");
        assert!(!history.job("1").is_reported, "it was forgotten");
        assert_eq!(history.jobs.len(), MAX_JOBS);
    }

    #[test]
    fn events_and_samples_are_bounded() {
        let mut job = Job::default();
        for number in 0..5 {
            job.add(number.to_string(), 2);
        }
        assert_eq!(job.events, ["3", "4"]);
        job.add("5".to_owned(), 0);
        assert_eq!(job.events.len(), 0);
        let sample = |seconds| Sample {
            time: Duration::from_secs(seconds),
            usage: Vec::new(),
        };
        for rank in 0..100 {
            job.keep(rank, sample(1));
        }
        job.keep(0, sample(2));
        assert_eq!(job.samples.len(), MAX_PROCS);
        assert_eq!(job.sample(0), Some(&sample(2)), "a known proc is kept");
    }
}
