//! The served models: loading on demand, a queue for each, and the memory of all.

use crate::api_error::ApiError;
use crate::flags::ServeFlags;
use crate::note;
use crate::tools::CallMarks;
use foretoken::internals::files;
use foretoken::internals::load::ModelFiles;
use foretoken::internals::text::{ReasoningFormat, ToolFormat};
use foretoken::{CancelToken, Engine, Error, LoadOptions, Result, SamplingOptions};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Mutex as Turn, OwnedRwLockReadGuard, OwnedSemaphorePermit, RwLock, Semaphore};
use tokio::task::spawn_blocking;

/// A model that requests may name.
struct HostedModel {
    id: String,
    /// Name as on the command line.
    name: String,
    assistant: Option<String>,
    loaded: Mutex<Option<Arc<LoadedModel>>>,
    queue: Arc<Semaphore>,
    /// Number of the last use; the least recently used model has the lowest.
    last_use: AtomicU64,
}

/// A model in memory.
pub(crate) struct LoadedModel {
    pub engine: Engine,
    pub tool_format: Option<ToolFormat>,
    pub reasoning_format: Option<ReasoningFormat>,
    /// Marks around calls, for grammars.
    pub marks: CallMarks,
    /// Sampling that the model's files recommend.
    pub sampling: SamplingOptions,
    /// Tokens that the context holds.
    pub context: usize,
    /// Planned bytes; 0 without a budget.
    bytes: u64,
    /// Locked by each use, and for writing before the model is freed.
    uses: Arc<RwLock<()>>,
}

/// Use of a model by a request. Fields are dropped in this order: the model before the lock, so that a user never frees it.
pub(crate) struct ModelUse {
    pub model: Arc<LoadedModel>,
    host: Arc<ModelHost>,
    _lock: OwnedRwLockReadGuard<()>,
    _place: OwnedSemaphorePermit,
}

/// All models of the server.
pub(crate) struct ModelHost {
    models: Vec<HostedModel>,
    options: LoadOptions,
    budget: Option<u64>,
    max_queue: usize,
    /// Held while a model is loaded: one at a time.
    turn: Turn<()>,
    uses: AtomicU64,
}

impl ModelHost {
    /// Makes a host that has loaded nothing yet.
    ///
    /// # Errors
    /// [`Error::NotFound`] for a name that cannot be a model, [`Error::BadOption`] for two models of one id.
    pub fn new(flags: &ServeFlags, options: LoadOptions) -> Result<Self> {
        let mut ids = BTreeSet::new();
        let mut models = Vec::new();
        for (index, name) in flags.model.iter().enumerate() {
            files::locate("model", name)?;
            let assistant = flags.assistant(index);
            assistant.as_deref().map(|name| files::locate("assistant_model", name)).transpose()?;
            let id = id(name);
            if !ids.insert(id.clone()) {
                let allowed = "models of different ids; the id of a folder or file is its last part".into();
                return Err(Error::BadOption { option: "model".into(), value: format!("{id} twice"), allowed });
            }
            let queue = Arc::new(Semaphore::new(flags.max_queue));
            let last_use = AtomicU64::new(0);
            models.push(HostedModel { id, name: name.clone(), assistant, loaded: Mutex::default(), queue, last_use });
        }
        let (budget, max_queue) = (flags.memory_budget, flags.max_queue);
        Ok(Self { models, options, budget, max_queue, turn: Turn::default(), uses: AtomicU64::new(0) })
    }

    /// Returns the ids, the default first.
    pub fn ids(&self) -> Vec<&str> {
        self.models.iter().map(|model| model.id.as_str()).collect()
    }

    /// Returns true if the model is in memory.
    pub fn is_loaded(&self, index: usize) -> bool {
        self.models[index].state().is_some()
    }

    /// Returns the index of a model; `None`: the default.
    ///
    /// # Errors
    /// Status 404.
    pub fn find(&self, id: Option<&str>) -> Result<usize, ApiError> {
        let Some(id) = id else { return Ok(0) };
        let found = self.models.iter().position(|model| model.id == id);
        found.ok_or_else(|| ApiError::unknown_model(id, &self.ids()))
    }

    /// Takes a place in the queue of a model, and loads it if necessary.
    ///
    /// # Errors
    /// Status 429 if the queue is full; errors of loading.
    pub async fn take(self: &Arc<Self>, index: usize) -> Result<ModelUse, ApiError> {
        let model = &self.models[index];
        let place = model.queue.clone().try_acquire_owned();
        let place = place.map_err(|_| ApiError::queue_full(&model.id, self.max_queue))?;
        model.last_use.store(self.uses.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        let (model, lock) = match model.ready() {
            Some(ready) => ready,
            None => {
                let host = self.clone();
                // A task of its own: the load goes on if the client leaves.
                let loading = tokio::spawn(async move { host.load(index).await });
                loading
                    .await
                    .map_err(|_| Error::Internal { reason: "loading the model failed: try again".into() })??
            }
        };
        Ok(ModelUse { model, host: self.clone(), _lock: lock, _place: place })
    }

    /// Loads a model, after models in its way were freed.
    async fn load(&self, index: usize) -> Result<(Arc<LoadedModel>, OwnedRwLockReadGuard<()>)> {
        let _turn = self.turn.lock().await;
        let model = &self.models[index];
        if let Some(ready) = model.ready() {
            return Ok(ready);
        }
        let bytes = match self.budget {
            Some(budget) => self.make_room(model, budget).await?,
            None => 0,
        };
        note(&format!("loading {}", model.id));
        let mut builder = Engine::builder(&model.name).options(self.options.clone()).on_progress(reporter(&model.id));
        if let Some(assistant) = &model.assistant {
            builder = builder.assistant_model(assistant);
        }
        let engine = builder.load_async().await?;
        let facts = engine.call(|generator| {
            let tool_format = generator.tool_format();
            let marks = tool_format.map(|format| CallMarks::new(format, generator.tokenizer())).unwrap_or_default();
            let (sampling, context) = (generator.prompts.sampling.clone(), generator.prompts.context);
            Ok((tool_format, generator.reasoning_format(), marks, sampling, context))
        });
        let (tool_format, reasoning_format, marks, sampling, context) = facts.await?;
        engine.warnings().iter().for_each(|warning| note(&format!("{}: {warning}", model.id)));
        note(&format!("{} is loaded, on {}", model.id, engine.device().name));
        let uses = Arc::default();
        let loaded = LoadedModel { engine, tool_format, reasoning_format, marks, sampling, context, bytes, uses };
        *model.state() = Some(Arc::new(loaded));
        model.ready().ok_or_else(|| Error::Internal { reason: "the model was freed while it was loaded".into() })
    }

    /// Frees least recently used models until a model fits the budget. Returns the bytes that it needs.
    async fn make_room(&self, model: &HostedModel, budget: u64) -> Result<u64> {
        let (name, assistant, options) = (model.name.clone(), model.assistant.clone(), self.options.clone());
        let planning = spawn_blocking(move || planned_bytes(&name, assistant.as_deref(), &options));
        let need = planning.await.map_err(|_| Error::Internal { reason: "the plan of the model failed".into() })??;
        if need > budget {
            let what = format!("the model {}, by --memory-budget", model.id);
            return Err(Error::OutOfGpuMemory { what, need, limit: Some(budget) });
        }
        loop {
            let loaded = |model: &&HostedModel| model.state().is_some();
            let used: u64 = self.models.iter().filter_map(|model| Some(model.state().as_ref()?.bytes)).sum();
            let oldest = self.models.iter().filter(loaded).min_by_key(|model| model.last_use.load(Ordering::Relaxed));
            let oldest = oldest.filter(|_| used + need > budget);
            let Some((id, freed)) = oldest.and_then(|oldest| Some((&oldest.id, oldest.state().take()?))) else {
                return Ok(need);
            };
            note(&format!("freeing {id}"));
            free(freed).await;
        }
    }

    /// Frees a model whose engine has failed, so that the next request loads it again.
    fn discard(&self, broken: &Arc<LoadedModel>) {
        for model in &self.models {
            if let Some(found) = model.state().take_if(|loaded| Arc::ptr_eq(loaded, broken)) {
                // The caller still uses it.
                tokio::spawn(free(found));
            }
        }
    }
}

impl ModelUse {
    /// Converts an error of the engine. After an error that the engine does not survive, the next request loads the model again.
    pub fn failed(&self, error: Error) -> ApiError {
        if matches!(error, Error::Internal { .. } | Error::DeviceLost { .. } | Error::GpuBlocked { .. }) {
            self.host.discard(&self.model);
        }
        error.into()
    }
}

impl HostedModel {
    fn state(&self) -> std::sync::MutexGuard<'_, Option<Arc<LoadedModel>>> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the model if it is loaded, locked against being freed.
    fn ready(&self) -> Option<(Arc<LoadedModel>, OwnedRwLockReadGuard<()>)> {
        let state = self.state();
        let loaded = state.as_ref()?;
        Some((loaded.clone(), loaded.uses.clone().try_read_owned().ok()?))
    }
}

/// Frees a model after its last use.
async fn free(loaded: Arc<LoadedModel>) {
    let uses = loaded.uses.clone();
    let _last = uses.write().await;
    // The thread of the model is joined.
    drop(spawn_blocking(move || drop(loaded)).await);
}

/// Time between two reports of progress.
const REPORT_EVERY: Duration = Duration::from_secs(5);

/// Returns a callback that reports the progress of a slow load on stderr.
fn reporter(id: &str) -> impl FnMut(u64, u64) + Send + 'static {
    let (id, mut reported) = (id.to_owned(), Instant::now());
    move |done, all| {
        if reported.elapsed() >= REPORT_EVERY {
            reported = Instant::now();
            note(&format!("{id}: {done} of {all} bytes"));
        }
    }
}

/// Returns the id of a model: the name of a Hub model, or the last part of a path, without `.gguf`.
fn id(name: &str) -> String {
    let path = Path::new(name);
    let last = path.canonicalize().ok().and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    let id = last.unwrap_or_else(|| name.to_owned());
    id.strip_suffix(".gguf").map(str::to_owned).unwrap_or(id)
}

/// Returns the bytes of memory that a model, its draft model and its prompt cache need at most, by their headers.
fn planned_bytes(name: &str, assistant: Option<&str>, options: &LoadOptions) -> Result<u64> {
    let total = |option: &'static str, name: &str, options: &LoadOptions| {
        let folder = files::open(option, name, &CancelToken::default(), &mut |_, _| ())?;
        let files = pollster::block_on(ModelFiles::open(Box::new(folder), options))?;
        Ok::<_, Error>(files.blueprint.memory().total())
    };
    let target = total("model", name, options)?;
    let own = options.clone().file(options.assistant_file.clone()).max_context(None);
    // A trained drafter has no plan without its target, and is left out.
    let draft = assistant.and_then(|name| total("assistant_model", name, &own).ok()).unwrap_or(0);
    Ok(target * options.sp_degree as u64 + draft + options.context.prompt_cache_bytes)
}
