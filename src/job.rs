//! What a toplevel can be asked to do, as data: the eval thread of this process does a job
//! where it is, a worker process gets it over its socket.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::bridge::Runtime;
use crate::bytes::Bytes;
use crate::error::EvaluatorError;
use crate::eval_thread::{EvalThread, Evaluated, Run};
use crate::outcome::{Bindings, Loaded, Program, Project, Recovered};
use crate::query::{Completions, Definition, Typechecked};

/// Something to do with a toplevel.
pub trait Job: Serialize + DeserializeOwned + Send + 'static {
    /// What a worker knows it by.
    const NAME: &'static str;
    type Done: Serialize + DeserializeOwned + Send + 'static;

    fn run(self, thread: &mut EvalThread, runtime: &Runtime) -> Result<Self::Done, EvaluatorError>;
}

/// Declares the jobs: what each is given, what it returns, how it is done.
macro_rules! jobs {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty),* } -> $done:ty,
       |$this:ident, $thread:ident, $runtime:ident| $run:expr;)*) => {
        $($(#[$doc])*
        #[derive(Debug, Serialize, Deserialize)]
        pub struct $name { $(pub $field: $type),* }

        impl Job for $name {
            const NAME: &'static str = stringify!($name);
            type Done = $done;

            fn run(
                self,
                $thread: &mut EvalThread,
                $runtime: &Runtime,
            ) -> Result<$done, EvaluatorError> {
                let $this = self;
                $run
            }
        })*

        /// Does the job called `name`; given and returned as JSON.
        pub fn run_named(
            name: &str,
            given: &[u8],
            thread: &mut EvalThread,
            runtime: &Runtime,
        ) -> Result<String, String> {
            match name {
                $(stringify!($name) => run_as::<$name>(given, thread, runtime),)*
                _ => Err(format!("there is no job {name:?}")),
            }
        }
    };
}

jobs! {
    /// Runs a source.
    Eval { source: String } -> Run<Evaluated>,
        |job, thread, runtime| thread.eval(runtime, job.source.as_bytes());

    /// Runs the source of a checkpoint in a fresh toplevel, with a log of its own; also
    /// returns how many of its phrases succeeded.
    Restore { source: Bytes } -> Run<(Evaluated, usize)>,
        |job, thread, runtime| thread.restore(runtime, &job.source.0);

    /// Runs the phrases of a phrase log again; see [`EvalThread::recover`].
    Recover { log: Option<Bytes>, done: usize, skip: Vec<usize> } -> Run<Recovered>,
        |job, thread, runtime| {
            thread.recover(runtime, job.log.map(|log| log.0), job.done, &job.skip)
        };

    /// A fresh toplevel and a new log.
    Reset {} -> Run<()>, |_job, thread, runtime| thread.reset(runtime);

    /// What a name stands for; the inner error is about the name.
    Lookup { name: String } -> Run<Result<Definition, String>>,
        |job, thread, runtime| thread.lookup(runtime, &job.name);

    /// Type-checks a source without running it.
    Typecheck { source: String } -> Run<Typechecked>,
        |job, thread, runtime| thread.typecheck(runtime, job.source.as_bytes());

    /// What can be written at an offset in bytes.
    Complete { source: String, offset: usize, limit: usize } -> Run<Completions>,
        |job, thread, runtime| {
            let source = job.source.as_bytes();
            thread.run(runtime, |runtime| runtime.complete(source, job.offset, job.limit))
        };

    /// Links a file of compiled code and runs its initialisers.
    Load { path: String } -> Run<Loaded>,
        |job, thread, runtime| thread.run(runtime, |runtime| runtime.load(job.path.as_bytes()));

    /// Builds a dune project and links its libraries.
    LoadProject { folder: String } -> Run<Project>,
        |job, thread, runtime| {
            thread.run(runtime, |runtime| runtime.load_project(job.folder.as_bytes()))
        };

    /// The value bindings whose names contain `filter`.
    Env { filter: String, all: bool, limit: usize } -> Bindings,
        |job, _thread, runtime| {
            runtime.env(&job.filter, job.all, job.limit).map_err(EvaluatorError::Fault)
        };

    /// The program of a phrase log; the inner error says why `entry` will not do.
    MakeProgram { entry: String, log: Bytes } -> Result<Program, String>,
        |job, _thread, runtime| {
            runtime.program(&job.entry, &job.log.0).map_err(EvaluatorError::Fault)
        };

    /// The packages that the session required by name, in order.
    Packages {} -> Vec<String>,
        |_job, _thread, runtime| runtime.packages().map_err(EvaluatorError::Fault);

    /// The files of compiled code that no phrase of the log brings back.
    LoadedByHand {} -> Vec<String>,
        |_job, _thread, runtime| runtime.loaded_by_hand().map_err(EvaluatorError::Fault);

    /// The text of the phrase log and its number of phrases.
    Log {} -> (Bytes, usize),
        |_job, thread, _runtime| {
            let contents = thread.log().contents().map_err(EvaluatorError::Log)?;
            Ok((Bytes(contents.0), contents.1))
        };
}

fn run_as<J: Job>(
    given: &[u8],
    thread: &mut EvalThread,
    runtime: &Runtime,
) -> Result<String, String> {
    let job: J = serde_json::from_slice(given).map_err(|e| format!("{}: {e}", J::NAME))?;
    serde_json::to_string(&job.run(thread, runtime)).map_err(|e| format!("{}: {e}", J::NAME))
}
