"""The C library as ctypes.  Made of include/plimsoll by tools/results; make docs rewrites it."""
# ruff: noqa
# mypy: ignore-errors
from ctypes import *

UNKNOWN = 2**64 - 1

PLIM_CHECKPOINTER_MAXIMIZE = 1
PLIM_CHECKPOINTER_KEEP_ALL = 2
PLIM_CHECKPOINTER_TORCH = 4
PLIM_SAVING_STAGING = 0
PLIM_SAVING_WRITING = 1
PLIM_SAVING_DURABLE = 2
PLIM_SAVING_FAILED = 3
PLIM_CKPT_VERIFY = 1
PLIM_CKPT_VALUES = 2
PLIM_CKPT_DRY_RUN = 4
PLIM_CKPT_REDACT = 8
PLIM_CKPT_NOT_VERIFIED = 0
PLIM_CKPT_WHOLE = 1
PLIM_CKPT_UNPROVEN = 2
PLIM_CKPT_DAMAGED = 3
PLIM_CKPT_TRUNCATED = 4
PLIM_CKPT_NOT_A_CHECKPOINT = 5
PLIM_CKPT_UNKNOWN_CODE = 6
PLIM_CKPT_DANGEROUS = 7
PLIM_CKPT_TEXT_VERIFY = 0
PLIM_CKPT_TEXT_SHOW = 1
PLIM_CKPT_TEXT_TENSORS = 2
PLIM_CKPT_TEXT_LINE = 3
PLIM_CKPT_WHOLE_ONLY = 1
PLIM_CKPT_AS_TORCH = 2
PLIM_CKPT_NO_MANIFEST = 4
PLIM_CKPT_ALL = 8
PLIM_CURVES_GROWS = 1
PLIM_CURVES_REDACT = 2
PLIM_CURVES_TEXT_SERIES = 1
PLIM_CURVES_TEXT_NO_PLOT = 2
PLIM_CURVES_TEXT_BRIEF = 4
PLIM_CLAIM_FILL = 0
PLIM_CLAIM_WAIT = 1
PLIM_CLAIM_DONE = 2
PLIM_SAMPLES_CHECK_ALWAYS = 1
PLIM_SAMPLES_CHECK_NEVER = 2
PLIM_EPOCH_SHUFFLE = 1
PLIM_EPOCH_DROP_LAST = 2
PLIM_DIFF_REDACT = 1
PLIM_DIFF_NO_PEAK = 2
PLIM_DIFF_NO_END = 4
PLIM_DIFF_GATE = 8
PLIM_DIFF_BY_USER_FRAME = 0
PLIM_DIFF_BY_STACK = 1
PLIM_DIFF_BY_CATEGORY = 2
PLIM_DIFF_BY_PHASE = 3
PLIM_DIFF_BY_SIZE = 4
PLIM_DIFF_EXACT = 0
PLIM_DIFF_MOVED = 1
PLIM_DIFF_LINES = 2
PLIM_DIFF_FUNCTION = 3
PLIM_DIFF_ONLY_A = 4
PLIM_DIFF_ONLY_B = 5
PLIM_DOCTOR_REDACT = 1
PLIM_DOCTOR_OK = 0
PLIM_DOCTOR_NOTE = 1
PLIM_DOCTOR_NO = 2
PLIM_GAUGE_PYTHON = 1
PLIM_GAUGE_RECORD = 2
PLIM_GAUGE_C = 3
PLIM_GAUGE_UNKNOWN = 0
PLIM_GAUGE_DATA = 1
PLIM_GAUGE_FORWARD = 2
PLIM_GAUGE_BACKWARD = 3
PLIM_GAUGE_OPTIMIZER = 4
PLIM_GAUGE_EVAL = 5
PLIM_GAUGE_SAVE = 6
PLIM_GAUGE_OTHER = 7
PLIM_GAUGE_RECORDS = 1
PLIM_GRADIENT_FLOAT32 = 0
PLIM_GRADIENT_FLOAT16 = 1
PLIM_GRADIENT_BFLOAT16 = 2
PLIM_GRADIENT_FLOAT64 = 3
PLIM_GRADIENTS_LATER = 1
PLIM_HERE_REDACT = 1
PLIM_HERE_LIMIT_UNKNOWN = 0
PLIM_HERE_LIMIT_NONE = 1
PLIM_HERE_LIMIT_SET = 2
PLIM_HERE_OVERCOMMIT_UNKNOWN = 0
PLIM_HERE_OVERCOMMIT_HEURISTIC = 1
PLIM_HERE_OVERCOMMIT_ALWAYS = 2
PLIM_HERE_OVERCOMMIT_NEVER = 3
PLIM_HERE_CGROUP = 0
PLIM_HERE_CGROUP_HIGH = 1
PLIM_HERE_CGROUP_MEMSW = 2
PLIM_HERE_CGROUP_ABOVE = 3
PLIM_HERE_MACHINE = 4
PLIM_HERE_COMMIT_LIMIT = 5
PLIM_HERE_RLIMIT_AS = 6
PLIM_HERE_RLIMIT_DATA = 7
PLIM_HERE_DEV_SHM = 8
PLIM_HERE_KILLED = 0
PLIM_HERE_HANGS = 1
PLIM_HERE_SLOWED = 2
PLIM_HERE_REFUSED = 3
PLIM_HERE_BUS_ERROR = 4
PLIM_LOADING_TO_HOST = 1
PLIM_LOADING_AS_STORED = 2
PLIM_ROLE_OTHER = 0
PLIM_ROLE_TRAIN_LOSS = 1
PLIM_ROLE_VAL_LOSS = 2
PLIM_ROLE_METRIC = 3
PLIM_ROLE_ERROR = 4
PLIM_ROLE_GRAD_NORM = 5
PLIM_ROLE_LEARNING_RATE = 6
PLIM_ROLE_LOSS_SCALE = 7
PLIM_ROLE_SKIPPED_STEPS = 8
PLIM_ROLE_MEMORY = 9
PLIM_ROLE_ENTROPY = 10
PLIM_CURVES_NAN = 0
PLIM_CURVES_INF = 1
PLIM_CURVES_SPIKE = 2
PLIM_CURVES_DIVERGED = 3
PLIM_CURVES_EXPLOSION = 4
PLIM_CURVES_OVERFIT = 5
PLIM_CURVES_COLLAPSE = 6
PLIM_CURVES_PLATEAU = 7
PLIM_CURVES_EARLY_STOP = 8
PLIM_CURVES_SCALER_SKIPS = 9
PLIM_CURVES_MEMORY_CREEP = 10
PLIM_CURVES_LEARNING_RATE = 11
PLIM_CURVES_LOG_DAMAGE = 12
PLIM_STOP_PLIMSOLL = 0
PLIM_STOP_KERAS = 1
PLIM_STOP_LIGHTNING = 2
PLIM_STOP_TRANSFORMERS = 3
PLIM_STOP_NOT = 0
PLIM_STOP_PATIENCE = 1
PLIM_STOP_NON_FINITE = 2
PLIM_STOP_THRESHOLD = 3
PLIM_STOP_DIVERGENCE = 4
PLIM_PLAN_NO_CLIP = 1
PLIM_PLAN_KEEP_OUTPUTS = 2
PLIM_PLAN_MAX_BATCH = 4
PLIM_PLAN_MAX_SEQUENCE = 8
PLIM_PLAN_MAX_RESIDENT = 8388608
PLIM_PLAN_REDACT = 16
PLIM_PLAN_ALLOW_CHANGES = 32
PLIM_PLAN_NO_CACHE = 64
PLIM_PLAN_PADDED = 1024
PLIM_PLAN_GROUPED = 2048
PLIM_PLAN_SEQUENCE_PARALLEL = 1048576
PLIM_PLAN_OPTIMIZER_IN_BACKWARD = 2097152
PLIM_PLAN_DORA = 4194304
PLIM_RECORD_NO_PYTHON = 0
PLIM_RECORD_NO_TORCH = 1
PLIM_RECORD_NO_CUDA = 2
PLIM_RECORD_NO_EVENTS = 3
PLIM_RECORD_NO_DUMP = 4
PLIM_RECORD_DUMPED = 5
PLIM_EVENT_ALLOC = 0
PLIM_EVENT_FREE = 1
PLIM_EVENT_FREE_REQUESTED = 2
PLIM_EVENT_FREE_COMPLETED = 3
PLIM_EVENT_SEGMENT_ALLOC = 4
PLIM_EVENT_SEGMENT_FREE = 5
PLIM_EVENT_SEGMENT_MAP = 6
PLIM_EVENT_SEGMENT_UNMAP = 7
PLIM_EVENT_OOM = 8
PLIM_EVENT_SNAPSHOT = 9
PLIM_EVENT_ANNOTATE = 10
PLIM_EVENT_OTHER = 11
PLIM_GROUP_USER_FRAME = 0
PLIM_GROUP_STACK = 1
PLIM_GROUP_SIZE = 2
PLIM_GROUP_MODULE = 3
PLIM_REPORT_REDACT = 1
PLIM_REPORT_WHY = 2
PLIM_OK = 0
PLIM_E_NOMEM = -1
PLIM_E_LIMIT = -2
PLIM_E_IO = -3
PLIM_E_FORMAT = -4
PLIM_E_ARG = -5
PLIM_E_CANCELLED = -6
PLIM_E_UNSUPPORTED = -7
PLIM_TRI_UNKNOWN = 0
PLIM_TRI_NO = 1
PLIM_TRI_YES = 2
PLIM_SEVERITY_INFO = 0
PLIM_SEVERITY_WARNING = 1
PLIM_SEVERITY_ERROR = 2
PLIM_BOUND_UNKNOWN = 0
PLIM_BOUND_DEVICE = 1
PLIM_BOUND_LIMIT = 2
PLIM_BOUND_OTHER_PROCESS = 3
PLIM_BOUND_NON_PYTORCH = 4
PLIM_BOUND_HOST = 5
PLIM_BOUND_CGROUP = 6
PLIM_BOUND_SHARED_MEMORY = 7
PLIM_CAUSE_UNKNOWN = 0
PLIM_CAUSE_CAPACITY = 1
PLIM_CAUSE_FRAGMENTATION = 2
PLIM_CAUSE_LEAK = 3
PLIM_CAUSE_PRIVATE_POOLS = 4
PLIM_CAUSE_OTHER_STREAM = 5
PLIM_WATCH_UNDECIDED = 0
PLIM_WATCH_STARTING = 1
PLIM_WATCH_COMPUTE_BOUND = 2
PLIM_WATCH_BUSY_THIN = 3
PLIM_WATCH_INPUT_CPU = 4
PLIM_WATCH_INPUT_DISK = 5
PLIM_WATCH_INPUT_SOURCE = 6
PLIM_WATCH_INPUT_MAIN = 7
PLIM_WATCH_INPUT_UNKNOWN = 8
PLIM_WATCH_MAIN_SYSTEM = 9
PLIM_WATCH_MAIN_PYTHON = 10
PLIM_WATCH_LAUNCH_BOUND = 11
PLIM_WATCH_SYNC_BOUND = 12
PLIM_WATCH_HOST_PACED = 13
PLIM_WATCH_COPY_BOUND = 14
PLIM_WATCH_SAVING = 15
PLIM_WATCH_SLEEPING = 16
PLIM_WATCH_IDLE = 17
PLIM_WATCH_THROTTLED = 18
PLIM_WATCH_STALLED = 19
PLIM_WATCH_DEADLOCK = 20
PLIM_WATCH_LOW = 0
PLIM_WATCH_MEDIUM = 1
PLIM_WATCH_HIGH = 2
PLIM_WATCH_BOUND_GPU = 0
PLIM_WATCH_BOUND_PROCESS = 1
PLIM_WATCH_BOUND_CGROUP = 2
PLIM_WATCH_BOUND_MACHINE = 3
PLIM_WATCH_BOUND_SHM = 4
PLIM_WATCH_CREEP = 0
PLIM_WATCH_OOM_SOON = 1
PLIM_WATCH_IDLE_LONG = 2
PLIM_WATCH_STALL = 3
PLIM_WATCH_INPUT_BOUND = 4
PLIM_WATCH_SLOWED = 5
PLIM_WATCH_CARD_LOST = 6
PLIM_WATCH_XID = 7
PLIM_WATCH_DIED = 8
PLIM_WATCH_ENDED = 9
PLIM_WATCH_TIGHT_SHM = 10
PLIM_WATCH_LATE_RANK = 11
PLIM_WATCH_DRIVER_SILENT = 12
PLIM_WATCH_NO_GPU = 1
PLIM_WATCH_HERE = 2
PLIM_WATCH_REDACT = 4
PLIM_WATCH_NO_STACKS = 8
PLIM_WATCH_PAGE_JOBS = 0
PLIM_WATCH_PAGE_JOB = 1
PLIM_WATCH_PAGE_EVIDENCE = 2
PLIM_WATCH_PAGE_HELP = 3
PLIM_WATCH_BY_PID = 0
PLIM_WATCH_BY_MEMORY = 1
PLIM_WATCH_BY_USE = 2
PLIM_WATCH_BY_STATE = 3
PLIM_WHATIF_SMALLEST = 1
PLIM_WHATIF_REDACT = 2
PLIM_WHATIF_SEARCH = 4
PLIM_WHATIF_PLAN = 8
PLIM_WHATIF_OK = 0
PLIM_WHATIF_OOM = 1
PLIM_WHY_REDACT = 1
PLIM_WHY_MORE = 2
PLIM_WHY_NOTHING = 0
PLIM_WHY_OTHER = 1
PLIM_WHY_MEMORY = 2
PLIM_WHY_DEVICE = 0
PLIM_WHY_BUDGET = 1
PLIM_WHY_HOST = 2
PLIM_WHY_CGROUP_KILL = 3
PLIM_WHY_HOST_KILL = 4
PLIM_WHY_KILLED = 5
PLIM_WHY_SHARED_MEMORY = 6
PLIM_WHY_MOMENT_UNKNOWN = 0
PLIM_WHY_LOADING = 1
PLIM_WHY_FORWARD = 2
PLIM_WHY_BACKWARD = 3
PLIM_WHY_FIRST_STEP = 4
PLIM_WHY_OPTIMIZER = 5
PLIM_WHY_EVAL = 6
PLIM_WHY_GENERATION = 7
PLIM_WHY_SAVING = 8
PLIM_WHY_DATA = 9
PLIM_WHY_MEMORY_SUMMARY = 0
PLIM_WHY_MEMORY_STATS = 1
PLIM_WHY_MEM_GET_INFO = 2
PLIM_WHY_SEE_MEMORY_USAGE = 3
PLIM_WHY_NVIDIA_SMI = 4
PLIM_WHY_NVIDIA_PROCESS = 5


class plim_checkpointer_options(Structure):
    _fields_ = [
        ("size", c_uint32),
        ("flags", c_uint32),
        ("keep_last", c_uint64),
        ("keep_best", c_uint64),
        ("keep_every", c_uint64),
        ("staging_bytes", c_uint64),
        ("rank", c_uint32),
        ("world", c_uint32),
        ("host_ranks", c_uint32),
        ("unused", c_uint32),
        ("rank_wait_ns", c_uint64),
        ("run", c_char_p),
        ("cuda_library", c_char_p),
    ]


class plim_saving_tensor(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("dtype", c_char_p),
        ("shape", POINTER(c_uint64)),
        ("rank", c_uint64),
        ("where", c_void_p),
        ("device", c_int32),
        ("guarded", c_uint32),
    ]


class plim_saving_part(Structure):
    _fields_ = [
        ("offset", c_uint64),
        ("bytes", c_uint64),
    ]


class plim_saving_stream(Structure):
    _fields_ = [
        ("device", c_int32),
        ("unused", c_uint32),
        ("stream", c_void_p),
    ]


class plim_saving_progress(Structure):
    _fields_ = [
        ("state", c_int),
        ("removed", c_uint32),
        ("bytes", c_uint64),
        ("blocked_ns", c_uint64),
        ("waited_ns", c_uint64),
        ("staged_ns", c_uint64),
        ("finished_ns", c_uint64),
    ]


class plim_saved(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("step", c_uint64),
        ("order", c_uint64),
        ("metric", c_double),
        ("bytes", c_uint64),
        ("world", c_uint64),
        ("best", c_bool),
        ("whole", c_bool),
    ]


class plim_saved_list(Structure):
    _fields_ = [
        ("at", POINTER(plim_saved)),
        ("n", c_size_t),
        ("hidden", c_void_p),
    ]


class plim_ckpt_options(Structure):
    _fields_ = [
        ("size", c_uint32),
        ("flags", c_uint32),
        ("max_memory_bytes", c_uint64),
        ("require", c_char_p),
        ("threads", c_uint32),
        ("unused", c_uint32),
        ("allow", c_char_p),
    ]


class plim_ckpt_extracted(Structure):
    _fields_ = [
        ("tensors", c_uint64),
        ("left_out", c_uint64),
        ("bytes", c_uint64),
        ("file_bytes", c_uint64),
        ("xxh3", c_uint64),
        ("state", c_bool),
        ("left_behind", c_char * 200),
    ]


class plim_ckpt_sealed(Structure):
    _fields_ = [
        ("files", c_uint64),
        ("bytes", c_uint64),
    ]


class plim_ckpt_last_options(Structure):
    _fields_ = [
        ("size", c_uint32),
        ("flags", c_uint32),
        ("keep", c_uint64),
        ("max_memory_bytes", c_uint64),
        ("threads", c_uint32),
        ("unused", c_uint32),
        ("allow", c_char_p),
    ]


class plim_ckpt_diff_options(Structure):
    _fields_ = [
        ("size", c_uint32),
        ("flags", c_uint32),
        ("threshold", c_double),
    ]


class plim_curves_options(Structure):
    _fields_ = [
        ("size", c_uint32),
        ("flags", c_uint32),
        ("stop_policy", c_uint32),
        ("patience", c_uint64),
        ("max_memory_bytes", c_uint64),
        ("min_delta", c_double),
        ("monitor", c_char_p),
        ("patterns_path", c_char_p),
        ("map", POINTER(c_char_p)),
        ("map_count", c_size_t),
    ]


class plim_samples_field(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("dtype", c_char_p),
        ("shape", POINTER(c_uint64)),
        ("rank", c_uint32),
        ("item_bytes", c_uint32),
    ]


class plim_samples_schema(Structure):
    _fields_ = [
        ("fields", POINTER(plim_samples_field)),
        ("field_count", c_size_t),
        ("samples", c_uint64),
        ("about", c_void_p),
        ("about_bytes", c_size_t),
        ("replaces", c_uint64),
    ]


class plim_claim(Structure):
    _fields_ = [
        ("state", c_uint32),
        ("count", c_uint32),
        ("first", c_uint64),
    ]


class plim_samples_part(Structure):
    _fields_ = [
        ("where", c_void_p),
        ("shape", POINTER(c_uint64)),
    ]


class plim_samples_options(Structure):
    _fields_ = [
        ("size", c_uint32),
        ("flags", c_uint32),
        ("max_memory_bytes", c_uint64),
    ]


class plim_epoch(Structure):
    _fields_ = [
        ("size", c_uint32),
        ("flags", c_uint32),
        ("seed", c_uint64),
        ("epoch", c_uint64),
        ("batch_size", c_uint64),
        ("rank", c_uint64),
        ("world", c_uint64),
        ("start", c_uint64),
        ("done", c_uint64),
    ]


class plim_batches_options(Structure):
    _fields_ = [
        ("size", c_uint32),
        ("device", c_int32),
        ("threads", c_uint32),
        ("ahead", c_uint32),
        ("ring_bytes", c_uint64),
        ("cuda_library", c_char_p),
    ]


class plim_batch(Structure):
    _fields_ = [
        ("number", c_uint64),
        ("samples", POINTER(c_uint32)),
        ("count", c_size_t),
        ("bytes", POINTER(c_uint64)),
        ("sizes", POINTER(c_uint64)),
        ("size_count", c_size_t),
    ]


class plim_diff_options(Structure):
    _fields_ = [
        ("size", c_uint32),
        ("flags", c_uint32),
        ("max_memory_bytes", c_uint64),
        ("device", c_uint64),
        ("group_by", c_int),
        ("rows_max", c_uint32),
        ("strip_prefix", c_char_p),
        ("gate_bytes", c_uint64),
        ("gate_ppm", c_uint64),
    ]


class plim_doctor_options(Structure):
    _fields_ = [
        ("size", c_uint32),
        ("flags", c_uint32),
        ("root", c_char_p),
    ]


class plim_doctor_check(Structure):
    _fields_ = [
        ("what", c_char_p),
        ("state", c_int),
        ("says", c_char_p),
        ("remedy", c_char_p),
    ]


class plim_file(Structure):
    _fields_ = [
        ("is", c_char_p),
        ("command", c_char_p),
        ("remedy", c_char_p),
    ]


class plim_gauge_device(Structure):
    _fields_ = [
        ("uuid", c_uint8 * 16),
        ("allocated_bytes", c_uint64),
        ("reserved_bytes", c_uint64),
        ("active_bytes", c_uint64),
        ("peak_allocated_bytes", c_uint64),
        ("peak_reserved_bytes", c_uint64),
        ("limit_bytes", c_uint64),
        ("alloc_retries", c_uint64),
        ("ooms", c_uint64),
        ("driver_free_bytes", c_uint64),
        ("pinned_bytes", c_uint64),
        ("unused", c_uint64 * 4),
    ]


class plim_gauge_mark(Structure):
    _fields_ = [
        ("step", c_uint32),
        ("flags", c_uint32),
        ("peak_allocated_bytes", c_uint64),
    ]


class plim_gauge_page(Structure):
    _fields_ = [
        ("magic", c_char * 8),
        ("version", c_uint32),
        ("bytes", c_uint32),
        ("start_time", c_uint64),
        ("pid", c_uint32),
        ("device_count", c_uint32),
        ("made_ns", c_uint64),
        ("writer", c_uint32),
        ("flags", c_uint32),
        ("run", c_char * 64),
        ("rank", c_uint32),
        ("world", c_uint32),
        ("total_steps", c_uint64),
        ("sequence", c_uint64),
        ("updated_ns", c_uint64),
        ("step", c_uint64),
        ("loss", c_double),
        ("lr", c_double),
        ("grad_norm", c_double),
        ("phase", c_uint32),
        ("epoch", c_uint32),
        ("phase_since_ns", c_uint64),
        ("last_step_ns", c_uint64),
        ("phase_ns", c_uint64 * 7),
        ("devices", plim_gauge_device * 16),
        ("marks", plim_gauge_mark * 112),
    ]


class plim_gauge_options(Structure):
    _fields_ = [
        ("size", c_uint32),
        ("writer", c_int),
        ("run", c_char_p),
        ("path", c_char_p),
        ("rank", c_uint32),
        ("world", c_uint32),
        ("total_steps", c_uint64),
    ]


class plim_gauge_step(Structure):
    _fields_ = [
        ("step", c_uint64),
        ("loss", c_double),
        ("lr", c_double),
        ("grad_norm", c_double),
        ("epoch", c_uint32),
        ("flags", c_uint32),
        ("peak_allocated_bytes", c_uint64),
    ]


class plim_gradients_options(Structure):
    _fields_ = [
        ("size", c_uint32),
        ("unused", c_uint32),
        ("device", c_uint64),
        ("history", c_uint64),
        ("threads", c_uint64),
        ("cuda_library", c_char_p),
    ]


class plim_gradient(Structure):
    _fields_ = [
        ("elements", c_uint64),
        ("order", c_uint64),
        ("dtype", c_uint32),
        ("copies", c_uint32),
    ]


class plim_gradients_summary(Structure):
    _fields_ = [
        ("nan", c_double),
        ("inf", c_double),
        ("max_abs", c_double),
        ("squares", c_double),
        ("scale", c_double),
        ("norm", c_float),
        ("found_inf", c_float),
    ]


class plim_gradients_call(Structure):
    _fields_ = [
        ("size", c_uint32),
        ("flags", c_uint32),
        ("step", c_uint64),
        ("where", POINTER(c_uint64)),
        ("stream", c_void_p),
        ("scale", c_uint64),
        ("summary", c_uint64),
    ]


class plim_gradients_stats(Structure):
    _fields_ = [
        ("step", c_uint64),
        ("norm", c_double),
        ("finite_norm", c_double),
        ("max_abs", c_double),
        ("scale", c_double),
        ("nan", c_uint64),
        ("inf", c_uint64),
        ("none", c_uint64),
        ("bad", c_uint64),
        ("first_bad", c_uint64),
        ("missed", c_uint64),
    ]


class plim_gradient_result(Structure):
    _fields_ = [
        ("nan", c_uint64),
        ("inf", c_uint64),
        ("norm", c_double),
        ("max_abs", c_double),
        ("is_set", c_uint64),
    ]


class plim_here_options(Structure):
    _fields_ = [
        ("size", c_uint32),
        ("flags", c_uint32),
        ("pid", c_uint64),
        ("root", c_char_p),
        ("max_memory_bytes", c_uint64),
    ]


class plim_loader_options(Structure):
    _fields_ = [
        ("size", c_uint32),
        ("device", c_int32),
        ("threads", c_uint32),
        ("unused", c_uint32),
        ("ring_bytes", c_uint64),
        ("cuda_library", c_char_p),
    ]


class plim_load(Structure):
    _fields_ = [
        ("tensor", c_uint64),
        ("where", c_void_p),
    ]


class plim_loading(Structure):
    _fields_ = [
        ("ckpt", c_void_p),
        ("loads", POINTER(plim_load)),
        ("n", c_size_t),
        ("flags", c_uint32),
        ("unused", c_uint32),
        ("stream", c_void_p),
    ]


class plim_copy(Structure):
    _fields_ = [
        ("to", c_void_p),
        ("from", c_void_p),
        ("bytes", c_uint64),
    ]


class plim_early_stop(Structure):
    _fields_ = [
        ("size", c_uint32),
        ("policy", c_uint32),
        ("maximize", c_uint32),
        ("reason", c_uint32),
        ("patience", c_uint64),
        ("start_from", c_uint64),
        ("min_delta", c_double),
        ("baseline", c_double),
        ("stopping_threshold", c_double),
        ("divergence_threshold", c_double),
        ("seen", c_uint64),
        ("wait", c_uint64),
        ("best", c_double),
        ("best_step", c_double),
        ("stop_step", c_double),
        ("has_best", c_uint32),
        ("unused", c_uint32),
    ]


class plim_monitor_options(Structure):
    _fields_ = [
        ("size", c_uint32),
        ("stop_on", c_uint32),
        ("patience", c_uint64),
        ("min_delta", c_double),
        ("max_memory_bytes", c_uint64),
    ]


class plim_monitor_news(Structure):
    _fields_ = [
        ("found", c_uint32),
        ("ended", c_uint32),
        ("stop", c_bool),
    ]


class plim_monitor_finding(Structure):
    _fields_ = [
        ("id", c_int),
        ("severity", c_int),
        ("confidence", c_double),
        ("step", c_double),
        ("detected_step", c_double),
        ("end_step", c_double),
        ("series", c_char_p),
        ("title", c_char_p),
        ("evidence", POINTER(c_char_p)),
        ("evidence_count", c_size_t),
        ("fix", POINTER(c_char_p)),
        ("fix_count", c_size_t),
    ]


class plim_page_options(Structure):
    _fields_ = [
        ("size", c_uint32),
        ("max_memory_bytes", c_uint64),
        ("progress", c_void_p),
        ("ctx", c_void_p),
    ]


class plim_page_size(Structure):
    _fields_ = [
        ("recordings", c_uint64),
        ("allocations", c_uint64),
        ("head_bytes", c_uint64),
        ("columns_bytes", c_uint64),
        ("packed_head_bytes", c_uint64),
        ("packed_columns_bytes", c_uint64),
        ("file_bytes", c_uint64),
    ]


class plim_plan_options(Structure):
    _fields_ = [
        ("size", c_uint32),
        ("flags", c_uint32),
        ("max_memory_bytes", c_uint64),
        ("layers", c_uint64),
        ("hidden", c_uint64),
        ("heads", c_uint64),
        ("kv_heads", c_uint64),
        ("intermediate", c_uint64),
        ("vocab", c_uint64),
        ("task", c_char_p),
        ("precision", c_char_p),
        ("optimizer", c_char_p),
        ("attention", c_char_p),
        ("checkpointing", c_char_p),
        ("parallel", c_char_p),
        ("batch", c_uint64),
        ("sequence", c_uint64),
        ("accumulate", c_uint64),
        ("steps", c_uint64),
        ("image_size", c_uint64),
        ("image_grid", c_uint64),
        ("lora_rank", c_uint64),
        ("lora_targets", c_char_p),
        ("eval_batch", c_uint64),
        ("new_tokens", c_uint64),
        ("gpus", c_uint64),
        ("extra_tensors", POINTER(c_char_p)),
        ("extra_tensor_count", c_size_t),
        ("residents", c_uint64),
        ("component_bytes", c_uint64),
        ("settings", c_char_p),
        ("torch", c_uint),
        ("memory_bytes", c_uint64),
        ("gpu", c_char_p),
        ("allowance_bytes", c_uint64),
        ("sweep", c_char_p),
        ("tensor_parallel", c_uint64),
        ("pipeline_parallel", c_uint64),
        ("micro_batches", c_uint64),
        ("schedule", c_char_p),
        ("stage", c_uint64),
        ("activations", c_char_p),
        ("optimizer_on", c_char_p),
        ("parameters_on", c_char_p),
        ("save", c_char_p),
        ("load", c_char_p),
        ("host_memory_bytes", c_uint64),
        ("loss", c_char_p),
        ("loss_chunk", c_uint64),
        ("longest", c_uint64),
        ("quantize", c_char_p),
        ("transformers", c_uint),
        ("lengths", c_char_p),
        ("image_width", c_uint64),
        ("image_grid_width", c_uint64),
        ("beams", c_uint64),
        ("cache", c_char_p),
        ("calibrate", POINTER(c_char_p)),
        ("recorded", POINTER(c_char_p)),
        ("calibrate_count", c_size_t),
        ("recorded_count", c_size_t),
        ("paste", c_char_p),
        ("parameters", c_uint64),
        ("from_files", POINTER(c_char_p)),
        ("from_count", c_size_t),
        ("lora_dropout", c_char_p),
        ("trace", c_void_p),
        ("trace_ctx", c_void_p),
        ("liger", c_char_p),
    ]


class plim_record_options(Structure):
    _fields_ = [
        ("size", c_uint32),
        ("unused", c_uint32),
        ("dir", c_char_p),
        ("stacks", c_char_p),
        ("max_entries", c_uint64),
        ("packer", c_char_p),
        ("plan", c_char_p),
        ("allocator", c_char_p),
    ]


class plim_record_file(Structure):
    _fields_ = [
        ("path", c_char_p),
        ("bytes", c_uint64),
    ]


class plim_recording_options(Structure):
    _fields_ = [
        ("size", c_uint32),
        ("device", c_uint32),
        ("max_memory_bytes", c_uint64),
        ("settings", c_char_p),
    ]


class plim_events(Structure):
    _fields_ = [
        ("size", c_uint32),
        ("count", c_size_t),
        ("kind", POINTER(c_uint8)),
        ("bytes", POINTER(c_uint64)),
        ("request", POINTER(c_uint64)),
        ("address", POINTER(c_uint64)),
        ("stream", POINTER(c_int64)),
        ("pool", POINTER(c_int64)),
        ("site", POINTER(c_uint32)),
        ("phase", POINTER(c_uint32)),
        ("time_us", POINTER(c_int64)),
    ]


class plim_recording_frame(Structure):
    _fields_ = [
        ("file", c_char_p),
        ("function", c_char_p),
        ("line", c_uint32),
    ]


class plim_event_columns(Structure):
    _fields_ = [
        ("count", c_uint64),
        ("kind", POINTER(c_uint8)),
        ("bytes", POINTER(c_uint64)),
        ("address", POINTER(c_uint64)),
        ("time_us", POINTER(c_int64)),
        ("site", POINTER(c_uint32)),
        ("allocation", POINTER(c_uint32)),
        ("stream", POINTER(c_uint16)),
        ("streams", POINTER(c_int64)),
        ("stream_count", c_uint64),
    ]


class plim_allocation_rule(Structure):
    _fields_ = [
        ("category", c_char_p),
        ("confidence_percent", c_uint32),
        ("text", c_char_p),
    ]


class plim_allocation_columns(Structure):
    _fields_ = [
        ("count", c_uint64),
        ("stride", c_uint64),
        ("address", POINTER(c_uint64)),
        ("requested_bytes", POINTER(c_uint64)),
        ("born", POINTER(c_uint32)),
        ("free_requested", POINTER(c_uint32)),
        ("free_completed", POINTER(c_uint32)),
        ("site", POINTER(c_uint32)),
        ("block_bytes", POINTER(c_uint64)),
        ("rule", POINTER(c_uint8)),
        ("rules", POINTER(plim_allocation_rule)),
        ("rule_count", c_uint64),
    ]


class plim_report_options(Structure):
    _fields_ = [
        ("size", c_uint32),
        ("flags", c_uint32),
        ("max_memory_bytes", c_uint64),
        ("log_path", c_char_p),
        ("device", c_uint64),
        ("at", c_char_p),
        ("events", c_char_p),
        ("steps", c_char_p),
        ("group_by", c_int),
        ("strip_prefix", c_char_p),
        ("owners_max", c_uint32),
        ("gpu", c_char_p),
    ]


class plim_err(Structure):
    _fields_ = [
        ("status", c_int),
        ("native", c_int),
        ("offset", c_uint64),
        ("message", c_char * 1000),
    ]


class plim_task(Structure):
    _fields_ = [
        ("size", c_uint32),
        ("cancel", c_uint32),
        ("done_bytes", c_uint64),
        ("total_bytes", c_uint64),
    ]


class plim_buffer(Structure):
    _fields_ = [
        ("text", c_char_p),
        ("bytes", c_size_t),
        ("capacity", c_size_t),
    ]


class plim_input(Structure):
    _fields_ = [
        ("size", c_uint32),
        ("descriptor", c_int32),
        ("path", c_char_p),
        ("bytes", c_void_p),
        ("byte_count", c_size_t),
        ("name", c_char_p),
    ]


class plim_text_style(Structure):
    _fields_ = [
        ("width", c_uint32),
        ("color", c_bool),
        ("utf8", c_bool),
    ]


class plim_watch_options(Structure):
    _fields_ = [
        ("size", c_uint32),
        ("flags", c_uint32),
        ("pid", c_uint64),
        ("window_s", c_double),
        ("log_path", c_char_p),
        ("nvml_path", c_char_p),
        ("root", c_char_p),
        ("patience_s", c_double),
        ("max_memory_bytes", c_uint64),
    ]


class plim_watch_view(Structure):
    _fields_ = [
        ("width", c_uint32),
        ("height", c_uint32),
        ("page", c_int),
        ("order", c_int),
        ("pid", c_uint64),
        ("first_line", c_uint64),
        ("message", c_char_p),
        ("color", c_bool),
        ("utf8", c_bool),
    ]


class plim_watch_request(Structure):
    _fields_ = [
        ("at", c_char_p),
        ("n", c_size_t),
        ("token", c_char_p),
        ("any_host", c_bool),
    ]


class plim_weight(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("dtype", c_char_p),
        ("shape", POINTER(c_uint64)),
        ("shape_count", c_size_t),
        ("bytes", c_uint64),
        ("where", c_void_p),
    ]


class plim_weights_set(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("tensors", POINTER(plim_weight)),
        ("tensor_count", c_size_t),
        ("bytes", c_uint64),
        ("hidden", c_void_p),
        ("load", c_uint64),
    ]


class plim_weights_place(Structure):
    _fields_ = [
        ("take", c_void_p),
        ("fill", c_void_p),
        ("drop", c_void_p),
        ("ctx", c_void_p),
        ("stream", c_void_p),
    ]


class plim_weights_options(Structure):
    _fields_ = [
        ("size", c_uint32),
        ("percent", c_uint32),
        ("max_sets", c_uint64),
        ("max_bytes", c_uint64),
        ("place", POINTER(plim_weights_place)),
        ("loader", c_void_p),
    ]


class plim_weights_stats(Structure):
    _fields_ = [
        ("hits", c_uint64),
        ("misses", c_uint64),
        ("waits", c_uint64),
        ("failures", c_uint64),
        ("evictions", c_uint64),
        ("sets", c_uint64),
        ("bytes", c_uint64),
        ("pinned", c_uint64),
    ]


class plim_whatif_options(Structure):
    _fields_ = [
        ("size", c_uint32),
        ("flags", c_uint32),
        ("max_memory_bytes", c_uint64),
        ("device", c_uint64),
        ("log_path", c_char_p),
        ("settings", POINTER(c_char_p)),
        ("settings_count", c_size_t),
        ("limit_bytes", c_uint64),
        ("gpu", c_char_p),
        ("allowance_bytes", c_uint64),
        ("torch", c_uint),
        ("threads", c_uint),
        ("search_ms", c_uint64),
        ("progress", c_void_p),
        ("progress_ctx", c_void_p),
    ]


class plim_why_options(Structure):
    _fields_ = [
        ("size", c_uint32),
        ("flags", c_uint32),
        ("max_memory_bytes", c_uint64),
        ("snapshot_path", c_char_p),
        ("config_path", c_char_p),
        ("recipe", POINTER(plim_plan_options)),
    ]


class plim_ranks_options(Structure):
    _fields_ = [
        ("size", c_uint32),
        ("threads", c_uint),
        ("report", plim_report_options),
        ("layout", c_char_p),
        ("rows_only", c_uint),
        ("progress", c_void_p),
        ("progress_ctx", c_void_p),
    ]


PROTOTYPES = {
    "plim_batches_begin": (c_int, [c_void_p, POINTER(plim_epoch), POINTER(plim_err)]),
    "plim_batches_free": (None, [c_void_p]),
    "plim_batches_new": (c_int, [c_void_p, POINTER(plim_batches_options), POINTER(c_void_p), POINTER(plim_err)]),
    "plim_batches_next": (c_int, [c_void_p, c_void_p, c_uint64, POINTER(plim_batch), POINTER(plim_err)]),
    "plim_batches_options_init": (None, [POINTER(plim_batches_options)]),
    "plim_batches_peek": (c_int, [c_void_p, POINTER(plim_batch), POINTER(plim_err)]),
    "plim_batches_push": (c_int, [c_void_p, POINTER(c_void_p), c_void_p, POINTER(plim_err)]),
    "plim_bound_name": (c_char_p, [c_int]),
    "plim_buffer_release": (None, [POINTER(plim_buffer)]),
    "plim_buffer_write": (c_int, [c_void_p, c_char_p, c_size_t]),
    "plim_cause_name": (c_char_p, [c_int]),
    "plim_checkpointer_close": (None, [c_void_p]),
    "plim_checkpointer_open": (c_int, [c_char_p, POINTER(plim_checkpointer_options), POINTER(c_void_p), POINTER(plim_err)]),
    "plim_checkpointer_options_init": (None, [POINTER(plim_checkpointer_options)]),
    "plim_checkpointer_prepare": (c_int, [c_void_p, c_uint64, c_int, POINTER(plim_err)]),
    "plim_ckpt_diff": (c_int, [c_void_p, c_void_p, POINTER(plim_ckpt_diff_options), POINTER(c_void_p), POINTER(plim_err)]),
    "plim_ckpt_diff_free": (None, [c_void_p]),
    "plim_ckpt_diff_json": (c_int, [c_void_p, c_void_p, c_void_p, POINTER(plim_err)]),
    "plim_ckpt_diff_options_init": (None, [POINTER(plim_ckpt_diff_options)]),
    "plim_ckpt_diff_text": (c_int, [c_void_p, POINTER(plim_text_style), c_void_p, c_void_p, POINTER(plim_err)]),
    "plim_ckpt_extract": (c_int, [c_void_p, c_char_p, c_uint, c_char_p, POINTER(plim_ckpt_extracted), POINTER(plim_err)]),
    "plim_ckpt_free": (None, [c_void_p]),
    "plim_ckpt_json": (c_int, [c_void_p, c_void_p, c_void_p, POINTER(plim_err)]),
    "plim_ckpt_last_free": (None, [c_void_p]),
    "plim_ckpt_last_good": (c_int, [c_char_p, POINTER(plim_ckpt_last_options), POINTER(c_void_p), POINTER(plim_err)]),
    "plim_ckpt_last_json": (c_int, [c_void_p, c_void_p, c_void_p, POINTER(plim_err)]),
    "plim_ckpt_last_options_init": (None, [POINTER(plim_ckpt_last_options)]),
    "plim_ckpt_open": (c_int, [c_char_p, POINTER(plim_ckpt_options), POINTER(c_void_p), POINTER(plim_err)]),
    "plim_ckpt_open_config": (c_int, [c_char_p, POINTER(c_void_p), POINTER(plim_err)]),
    "plim_ckpt_options_init": (None, [POINTER(plim_ckpt_options)]),
    "plim_ckpt_seal": (c_int, [c_void_p, POINTER(plim_ckpt_sealed), POINTER(plim_err)]),
    "plim_ckpt_text": (c_int, [c_void_p, c_int, POINTER(plim_text_style), c_void_p, c_void_p, POINTER(plim_err)]),
    "plim_ckpt_verdict_name": (c_char_p, [c_int]),
    "plim_claim_state_name": (c_char_p, [c_int]),
    "plim_curves_free": (None, [c_void_p]),
    "plim_curves_id_name": (c_char_p, [c_int]),
    "plim_curves_json": (c_int, [c_void_p, c_void_p, c_void_p, POINTER(plim_err)]),
    "plim_curves_open": (c_int, [POINTER(c_char_p), c_size_t, POINTER(plim_curves_options), POINTER(c_void_p), POINTER(plim_err)]),
    "plim_curves_options_init": (None, [POINTER(plim_curves_options)]),
    "plim_curves_page": (c_int, [c_void_p, c_char_p, POINTER(c_uint64), POINTER(plim_err)]),
    "plim_curves_refresh": (c_int, [c_void_p, POINTER(c_bool), POINTER(plim_err)]),
    "plim_curves_text": (c_int, [c_void_p, c_uint, POINTER(plim_text_style), c_void_p, c_void_p, POINTER(plim_err)]),
    "plim_diff_free": (None, [c_void_p]),
    "plim_diff_json": (c_int, [c_void_p, c_void_p, c_void_p, POINTER(plim_err)]),
    "plim_diff_match_name": (c_char_p, [c_int]),
    "plim_diff_of": (c_int, [c_void_p, c_void_p, POINTER(plim_diff_options), POINTER(c_void_p), POINTER(plim_err)]),
    "plim_diff_open": (c_int, [c_char_p, c_char_p, POINTER(plim_diff_options), POINTER(c_void_p), POINTER(plim_err)]),
    "plim_diff_options_init": (None, [POINTER(plim_diff_options)]),
    "plim_diff_text": (c_int, [c_void_p, POINTER(plim_text_style), c_void_p, c_void_p, POINTER(plim_err)]),
    "plim_doctor_add": (c_int, [c_void_p, POINTER(plim_doctor_check), POINTER(plim_err)]),
    "plim_doctor_free": (None, [c_void_p]),
    "plim_doctor_json": (c_int, [c_void_p, c_void_p, c_void_p, POINTER(plim_err)]),
    "plim_doctor_open": (c_int, [POINTER(plim_doctor_options), POINTER(c_void_p), POINTER(plim_err)]),
    "plim_doctor_options_init": (None, [POINTER(plim_doctor_options)]),
    "plim_doctor_state_name": (c_char_p, [c_int]),
    "plim_doctor_text": (c_int, [c_void_p, POINTER(plim_text_style), c_void_p, c_void_p, POINTER(plim_err)]),
    "plim_durable_abort": (None, [c_void_p]),
    "plim_durable_begin": (c_int, [c_char_p, c_uint64, POINTER(c_void_p), POINTER(plim_err)]),
    "plim_durable_commit": (c_int, [c_void_p, POINTER(c_uint64), POINTER(plim_err)]),
    "plim_durable_write": (c_int, [c_void_p, c_void_p, c_size_t, POINTER(plim_err)]),
    "plim_early_stop_feed": (c_int, [POINTER(plim_early_stop), c_double, c_double]),
    "plim_early_stop_init": (None, [POINTER(plim_early_stop), c_int, c_uint64]),
    "plim_epoch_batches": (c_int, [POINTER(plim_epoch), c_uint64, POINTER(c_uint64), POINTER(plim_err)]),
    "plim_file_of": (c_int, [c_char_p, POINTER(plim_file), POINTER(plim_err)]),
    "plim_gauge_close": (None, [c_void_p]),
    "plim_gauge_open": (c_int, [POINTER(plim_gauge_options), POINTER(c_void_p), POINTER(plim_err)]),
    "plim_gauge_options_init": (None, [POINTER(plim_gauge_options)]),
    "plim_gauge_path": (c_char_p, [c_void_p]),
    "plim_gauge_read": (c_int, [c_uint32, c_char_p, POINTER(plim_gauge_page), POINTER(plim_err)]),
    "plim_gauge_set_device": (None, [c_void_p, c_uint32, POINTER(plim_gauge_device)]),
    "plim_gauge_set_phase": (None, [c_void_p, c_int]),
    "plim_gauge_set_step": (None, [c_void_p, POINTER(plim_gauge_step)]),
    "plim_gradient_dtype_name": (c_char_p, [c_int]),
    "plim_gradients_bad": (c_size_t, [c_void_p, POINTER(c_uint64), c_size_t]),
    "plim_gradients_check": (c_int, [c_void_p, POINTER(plim_gradients_call), POINTER(plim_err)]),
    "plim_gradients_clip": (c_int, [c_void_p, c_double, POINTER(plim_gradients_call), POINTER(plim_err)]),
    "plim_gradients_collect": (c_int, [c_void_p, POINTER(plim_gradients_call), POINTER(plim_err)]),
    "plim_gradients_free": (None, [c_void_p]),
    "plim_gradients_open": (c_int, [POINTER(plim_gradients_options), POINTER(c_void_p), POINTER(plim_err)]),
    "plim_gradients_options_init": (None, [POINTER(plim_gradients_options)]),
    "plim_gradients_order": (None, [c_void_p, POINTER(c_uint64), c_size_t]),
    "plim_gradients_results": (None, [c_void_p, c_uint64, POINTER(c_void_p), POINTER(c_size_t)]),
    "plim_gradients_set": (c_int, [c_void_p, POINTER(plim_gradient), c_size_t, POINTER(plim_err)]),
    "plim_gradients_take": (c_int, [c_void_p, POINTER(plim_gradients_stats), POINTER(plim_err)]),
    "plim_gradients_wait": (c_int, [c_void_p, POINTER(plim_gradients_stats), POINTER(plim_err)]),
    "plim_here_effect_name": (c_char_p, [c_int]),
    "plim_here_free": (None, [c_void_p]),
    "plim_here_json": (c_int, [c_void_p, c_void_p, c_void_p, POINTER(plim_err)]),
    "plim_here_kind_name": (c_char_p, [c_int]),
    "plim_here_open": (c_int, [POINTER(plim_here_options), POINTER(c_void_p), POINTER(plim_err)]),
    "plim_here_options_init": (None, [POINTER(plim_here_options)]),
    "plim_here_overcommit_name": (c_char_p, [c_int]),
    "plim_here_state_name": (c_char_p, [c_int]),
    "plim_here_text": (c_int, [c_void_p, POINTER(plim_text_style), c_void_p, c_void_p, POINTER(plim_err)]),
    "plim_loader_after": (c_int, [c_void_p, c_void_p, POINTER(plim_err)]),
    "plim_loader_copy": (c_int, [c_void_p, POINTER(plim_copy), c_size_t, c_void_p, POINTER(c_uint64), POINTER(plim_err)]),
    "plim_loader_free": (None, [c_void_p]),
    "plim_loader_give": (None, [c_void_p, c_void_p, c_uint64]),
    "plim_loader_load": (c_int, [c_void_p, POINTER(plim_loading), POINTER(plim_err)]),
    "plim_loader_look": (c_int, [c_void_p, c_uint64, POINTER(c_uint32), POINTER(plim_err)]),
    "plim_loader_new": (c_int, [POINTER(plim_loader_options), POINTER(c_void_p), POINTER(plim_err)]),
    "plim_loader_options_init": (None, [POINTER(plim_loader_options)]),
    "plim_loader_take": (c_int, [c_void_p, c_uint64, POINTER(c_void_p), POINTER(plim_err)]),
    "plim_loader_wait": (c_int, [c_void_p, c_uint64, POINTER(plim_err)]),
    "plim_monitor_feed": (c_int, [c_void_p, c_char_p, c_double, c_double, POINTER(plim_monitor_news), POINTER(plim_err)]),
    "plim_monitor_finding_count": (c_size_t, [c_void_p]),
    "plim_monitor_free": (None, [c_void_p]),
    "plim_monitor_get_best": (None, [c_void_p, POINTER(c_double), POINTER(c_double)]),
    "plim_monitor_get_finding": (c_int, [c_void_p, c_size_t, POINTER(plim_monitor_finding), POINTER(plim_err)]),
    "plim_monitor_new": (c_int, [POINTER(plim_monitor_options), POINTER(c_void_p), POINTER(plim_err)]),
    "plim_monitor_options_init": (None, [POINTER(plim_monitor_options)]),
    "plim_monitor_restore": (c_int, [c_void_p, c_void_p, c_size_t, POINTER(plim_err)]),
    "plim_monitor_save": (c_int, [c_void_p, c_void_p, c_size_t, POINTER(c_size_t), POINTER(plim_err)]),
    "plim_monitor_set_role": (c_int, [c_void_p, c_char_p, c_int, POINTER(plim_err)]),
    "plim_monitor_should_stop": (c_char_p, [c_void_p]),
    "plim_order_batch": (c_size_t, [c_void_p, c_uint64, POINTER(c_uint32)]),
    "plim_order_free": (None, [c_void_p]),
    "plim_order_new": (c_int, [POINTER(plim_epoch), c_uint64, POINTER(c_void_p), POINTER(plim_err)]),
    "plim_page_add": (c_int, [c_void_p, c_void_p, POINTER(plim_err)]),
    "plim_page_answer": (c_int, [c_void_p, c_char_p, c_char_p, POINTER(plim_err)]),
    "plim_page_free": (None, [c_void_p]),
    "plim_page_get_size": (None, [c_void_p, POINTER(plim_page_size)]),
    "plim_page_new": (c_int, [POINTER(plim_page_options), POINTER(c_void_p), POINTER(plim_err)]),
    "plim_page_options_init": (None, [POINTER(plim_page_options)]),
    "plim_page_write": (c_int, [c_void_p, c_char_p, POINTER(plim_err)]),
    "plim_plan_free": (None, [c_void_p]),
    "plim_plan_json": (c_int, [c_void_p, c_void_p, c_void_p, POINTER(plim_err)]),
    "plim_plan_open": (c_int, [c_char_p, POINTER(plim_plan_options), POINTER(c_void_p), POINTER(plim_err)]),
    "plim_plan_options_init": (None, [POINTER(plim_plan_options)]),
    "plim_plan_page": (c_int, [c_void_p, c_void_p, POINTER(plim_err)]),
    "plim_plan_snapshot": (c_int, [c_void_p, c_char_p, POINTER(plim_err)]),
    "plim_plan_text": (c_int, [c_void_p, POINTER(plim_text_style), c_void_p, c_void_p, POINTER(plim_err)]),
    "plim_python_hooks": (c_void_p, [c_void_p]),
    "plim_python_pickle": (c_int, [c_void_p, c_int, POINTER(plim_buffer), c_void_p, POINTER(plim_err)]),
    "plim_ranks_digest": (c_int, [c_void_p, c_char_p, POINTER(plim_err)]),
    "plim_ranks_free": (None, [c_void_p]),
    "plim_ranks_json": (c_int, [c_void_p, c_void_p, c_void_p, POINTER(plim_err)]),
    "plim_ranks_open": (c_int, [POINTER(c_char_p), c_size_t, POINTER(plim_ranks_options), POINTER(c_void_p), POINTER(plim_err)]),
    "plim_ranks_options_init": (None, [POINTER(plim_ranks_options)]),
    "plim_ranks_several": (c_bool, [c_char_p]),
    "plim_ranks_text": (c_int, [c_void_p, POINTER(plim_text_style), c_void_p, c_void_p, POINTER(plim_err)]),
    "plim_record_environment": (POINTER(c_char_p), [c_void_p]),
    "plim_record_finish": (c_int, [c_void_p, POINTER(c_void_p), POINTER(c_size_t), POINTER(c_int), POINTER(plim_err)]),
    "plim_record_free": (None, [c_void_p]),
    "plim_record_lines": (c_char_p, []),
    "plim_record_options_init": (None, [POINTER(plim_record_options)]),
    "plim_record_prepare": (c_int, [POINTER(plim_record_options), POINTER(c_void_p), POINTER(plim_err)]),
    "plim_recording_allocations": (c_int, [c_void_p, c_uint64, POINTER(plim_allocation_columns), POINTER(plim_err)]),
    "plim_recording_append": (c_int, [c_void_p, POINTER(plim_events), POINTER(plim_err)]),
    "plim_recording_devices": (c_int, [c_void_p, POINTER(c_uint64), POINTER(plim_err)]),
    "plim_recording_events": (c_int, [c_void_p, c_uint64, POINTER(plim_event_columns), POINTER(plim_err)]),
    "plim_recording_extend": (c_int, [c_void_p, c_char_p, POINTER(c_uint64), POINTER(plim_err)]),
    "plim_recording_free": (None, [c_void_p]),
    "plim_recording_new": (c_int, [c_char_p, POINTER(plim_recording_options), POINTER(c_void_p), POINTER(plim_err)]),
    "plim_recording_open": (c_int, [c_char_p, POINTER(plim_recording_options), POINTER(c_void_p), POINTER(plim_err)]),
    "plim_recording_options_init": (None, [POINTER(plim_recording_options)]),
    "plim_recording_phase": (c_int, [c_void_p, c_char_p, POINTER(c_uint32), POINTER(plim_err)]),
    "plim_recording_read": (c_int, [POINTER(plim_input), POINTER(plim_recording_options), POINTER(c_void_p), POINTER(plim_err)]),
    "plim_recording_redact": (c_int, [c_void_p, POINTER(c_char_p), POINTER(plim_err)]),
    "plim_recording_site": (c_int, [c_void_p, POINTER(plim_recording_frame), c_size_t, POINTER(c_uint32), POINTER(plim_err)]),
    "plim_recording_snapshot": (c_int, [c_void_p, c_char_p, POINTER(plim_err)]),
    "plim_recording_stack": (c_int, [c_void_p, c_uint32, POINTER(plim_recording_frame), c_size_t, POINTER(c_size_t), POINTER(plim_err)]),
    "plim_report_finding_id": (c_char_p, [c_size_t]),
    "plim_report_free": (None, [c_void_p]),
    "plim_report_json": (c_int, [c_void_p, c_void_p, c_void_p, POINTER(plim_err)]),
    "plim_report_of": (c_int, [c_void_p, POINTER(plim_report_options), POINTER(c_void_p), POINTER(plim_err)]),
    "plim_report_open": (c_int, [c_char_p, POINTER(plim_report_options), POINTER(c_void_p), POINTER(plim_err)]),
    "plim_report_options_init": (None, [POINTER(plim_report_options)]),
    "plim_report_snapshot": (c_int, [c_void_p, c_char_p, POINTER(plim_err)]),
    "plim_report_text": (c_int, [c_void_p, POINTER(plim_text_style), c_void_p, c_void_p, POINTER(plim_err)]),
    "plim_role_name": (c_char_p, [c_int]),
    "plim_role_of": (c_int, [c_char_p]),
    "plim_samples_claim": (c_int, [c_void_p, POINTER(plim_claim), POINTER(plim_err)]),
    "plim_samples_close": (None, [c_void_p]),
    "plim_samples_fill": (c_int, [c_char_p, POINTER(plim_samples_schema), POINTER(c_void_p), POINTER(plim_err)]),
    "plim_samples_filling_free": (None, [c_void_p]),
    "plim_samples_info": (POINTER(plim_samples_schema), [c_void_p]),
    "plim_samples_mark": (c_uint64, [c_void_p]),
    "plim_samples_open": (c_int, [c_char_p, POINTER(plim_samples_options), POINTER(c_void_p), POINTER(plim_err)]),
    "plim_samples_options_init": (None, [POINTER(plim_samples_options)]),
    "plim_samples_put": (c_int, [c_void_p, c_uint64, POINTER(plim_samples_part), POINTER(plim_err)]),
    "plim_samples_read": (c_int, [c_void_p, c_uint64, POINTER(c_void_p), POINTER(plim_err)]),
    "plim_samples_seal": (c_int, [c_void_p, POINTER(c_uint32), POINTER(plim_err)]),
    "plim_samples_shape": (c_int, [c_void_p, c_uint64, c_size_t, POINTER(c_uint64), POINTER(plim_err)]),
    "plim_saved_free": (None, [POINTER(plim_saved_list)]),
    "plim_saved_open": (c_int, [c_char_p, c_uint, POINTER(c_void_p), POINTER(plim_err)]),
    "plim_saving_add": (c_int, [c_void_p, c_char_p, POINTER(plim_saving_tensor), c_size_t, POINTER(plim_err)]),
    "plim_saving_begin": (c_int, [c_void_p, c_uint64, c_double, POINTER(c_void_p), POINTER(plim_err)]),
    "plim_saving_free": (None, [c_void_p]),
    "plim_saving_guard": (c_int, [c_void_p, c_int, c_void_p, POINTER(plim_err)]),
    "plim_saving_note": (c_int, [c_void_p, c_char_p, c_char_p, c_char_p, POINTER(plim_err)]),
    "plim_saving_parts": (c_int, [c_void_p, c_char_p, POINTER(plim_saving_tensor), c_size_t, POINTER(plim_saving_part), POINTER(plim_err)]),
    "plim_saving_progress": (None, [c_void_p, POINTER(plim_saving_progress)]),
    "plim_saving_start": (c_int, [c_void_p, POINTER(plim_saving_stream), c_size_t, POINTER(plim_err)]),
    "plim_saving_state_name": (c_char_p, [c_int]),
    "plim_saving_text": (c_int, [c_void_p, c_char_p, c_void_p, c_size_t, POINTER(plim_err)]),
    "plim_saving_tree": (c_int, [c_void_p, c_char_p, c_void_p, c_size_t, POINTER(plim_err)]),
    "plim_saving_wait": (c_int, [c_void_p, c_int, c_uint64, POINTER(plim_err)]),
    "plim_severity_name": (c_char_p, [c_int]),
    "plim_status_name": (c_char_p, [c_int]),
    "plim_stop_policy_name": (c_char_p, [c_int]),
    "plim_stop_reason_name": (c_char_p, [c_int]),
    "plim_task_watch": (None, [POINTER(plim_task)]),
    "plim_version": (c_char_p, []),
    "plim_watch_answer": (c_int, [c_void_p, POINTER(plim_watch_request), POINTER(c_bool), c_void_p, c_void_p, POINTER(plim_err)]),
    "plim_watch_ask": (c_int, [c_void_p, c_size_t, POINTER(plim_err)]),
    "plim_watch_beside": (c_uint64, [c_void_p, c_int, c_uint64, c_int64]),
    "plim_watch_bound_name": (c_char_p, [c_int]),
    "plim_watch_confidence_name": (c_char_p, [c_int]),
    "plim_watch_event_name": (c_char_p, [c_int]),
    "plim_watch_follows": (c_bool, [POINTER(plim_watch_request), POINTER(c_uint64)]),
    "plim_watch_free": (None, [c_void_p]),
    "plim_watch_glance": (None, [c_void_p]),
    "plim_watch_json": (c_int, [c_void_p, c_void_p, c_void_p, POINTER(plim_err)]),
    "plim_watch_metrics": (c_int, [c_void_p, c_void_p, c_void_p, POINTER(plim_err)]),
    "plim_watch_metrics_plain": (c_int, [c_void_p, c_void_p, c_void_p, POINTER(plim_err)]),
    "plim_watch_open": (c_int, [POINTER(plim_watch_options), POINTER(c_void_p), POINTER(plim_err)]),
    "plim_watch_options_init": (None, [POINTER(plim_watch_options)]),
    "plim_watch_replay": (c_int, [c_char_p, POINTER(plim_watch_options), POINTER(c_void_p), POINTER(plim_err)]),
    "plim_watch_screen": (c_int, [c_void_p, POINTER(plim_watch_view), c_void_p, c_void_p, POINTER(plim_err)]),
    "plim_watch_signal": (c_int, [c_void_p, c_size_t, c_int, POINTER(plim_err)]),
    "plim_watch_state_name": (c_char_p, [c_int]),
    "plim_watch_text": (c_int, [c_void_p, POINTER(plim_text_style), c_void_p, c_void_p, POINTER(plim_err)]),
    "plim_watch_tick": (c_int, [c_void_p, POINTER(plim_err)]),
    "plim_watch_waited": (None, [c_void_p, c_uint64, c_int]),
    "plim_weights_add": (c_int, [c_void_p, c_char_p, c_char_p, c_char_p, POINTER(plim_err)]),
    "plim_weights_free": (None, [c_void_p]),
    "plim_weights_get": (c_int, [c_void_p, c_char_p, POINTER(c_void_p), POINTER(plim_err)]),
    "plim_weights_new": (c_int, [POINTER(plim_weights_options), POINTER(c_void_p), POINTER(plim_err)]),
    "plim_weights_options_init": (None, [POINTER(plim_weights_options)]),
    "plim_weights_put": (None, [c_void_p, POINTER(plim_weights_set)]),
    "plim_weights_remove": (c_int, [c_void_p, c_char_p, POINTER(plim_err)]),
    "plim_weights_stats": (None, [c_void_p, POINTER(plim_weights_stats)]),
    "plim_whatif_free": (None, [c_void_p]),
    "plim_whatif_json": (c_int, [c_void_p, c_void_p, c_void_p, POINTER(plim_err)]),
    "plim_whatif_of": (c_int, [c_void_p, POINTER(plim_whatif_options), POINTER(c_void_p), POINTER(plim_err)]),
    "plim_whatif_open": (c_int, [c_char_p, POINTER(plim_whatif_options), POINTER(c_void_p), POINTER(plim_err)]),
    "plim_whatif_options_init": (None, [POINTER(plim_whatif_options)]),
    "plim_whatif_outcome_name": (c_char_p, [c_int]),
    "plim_whatif_page": (c_int, [c_void_p, c_char_p, c_void_p, POINTER(plim_err)]),
    "plim_whatif_plan": (c_int, [c_void_p, c_char_p, POINTER(plim_err)]),
    "plim_whatif_snapshot": (c_int, [c_void_p, c_char_p, c_char_p, POINTER(plim_err)]),
    "plim_whatif_text": (c_int, [c_void_p, POINTER(plim_text_style), c_void_p, c_void_p, POINTER(plim_err)]),
    "plim_why_free": (None, [c_void_p]),
    "plim_why_json": (c_int, [c_void_p, c_void_p, c_void_p, POINTER(plim_err)]),
    "plim_why_kind_name": (c_char_p, [c_int]),
    "plim_why_moment_name": (c_char_p, [c_int]),
    "plim_why_open": (c_int, [c_char_p, POINTER(plim_why_options), POINTER(c_void_p), POINTER(plim_err)]),
    "plim_why_options_init": (None, [POINTER(plim_why_options)]),
    "plim_why_outcome_name": (c_char_p, [c_int]),
    "plim_why_read": (c_int, [POINTER(plim_input), POINTER(plim_why_options), POINTER(c_void_p), POINTER(plim_err)]),
    "plim_why_state_kind_name": (c_char_p, [c_int]),
    "plim_why_text": (c_int, [c_void_p, POINTER(plim_text_style), c_void_p, c_void_p, POINTER(plim_err)]),
}

# of a command: other names of members, bits of flags, what counts a list, releases, and where second sides go
OPTIONS = {
    "curves": {
        "names": {'follow': 'grows', 'policy': 'stop_policy', 'max_memory': 'max_memory_bytes', 'patterns': 'patterns_path'},
        "flags": {'grows': PLIM_CURVES_GROWS, 'redact': PLIM_CURVES_REDACT},
        "alone": {},
        "counts": {'map': 'map_count'},
        "releases": [],
        "sides": {},
    },
    "diff": {
        "names": {'max_memory': 'max_memory_bytes', 'top': 'rows_max'},
        "flags": {'redact': PLIM_DIFF_REDACT},
        "alone": {},
        "counts": {},
        "releases": [],
        "sides": {},
    },
    "plan": {
        "names": {'max_memory': 'max_memory_bytes', 'memory': 'memory_bytes', 'allowance': 'allowance_bytes', 'tp': 'tensor_parallel', 'pp': 'pipeline_parallel', 'max_seq': 'max_sequence', 'for': 'paste', 'offload_activations': 'activations', 'offload_optimizer': 'optimizer_on', 'offload_params': 'parameters_on', 'host_memory': 'host_memory_bytes', 'params': 'parameters', 'from': 'from_files', 'seq': 'sequence', 'lora': 'lora_rank', 'extra_tensor': 'extra_tensors', 'resident': 'residents'},
        "flags": {'redact': PLIM_PLAN_REDACT, 'sequence_parallel': PLIM_PLAN_SEQUENCE_PARALLEL, 'max_batch': PLIM_PLAN_MAX_BATCH, 'max_sequence': PLIM_PLAN_MAX_SEQUENCE, 'allow_changes': PLIM_PLAN_ALLOW_CHANGES, 'max_resident': PLIM_PLAN_MAX_RESIDENT, 'padded': PLIM_PLAN_PADDED, 'grouped': PLIM_PLAN_GROUPED, 'dora': PLIM_PLAN_DORA, 'no_clip': PLIM_PLAN_NO_CLIP, 'optimizer_in_backward': PLIM_PLAN_OPTIMIZER_IN_BACKWARD, 'keep_outputs': PLIM_PLAN_KEEP_OUTPUTS, 'no_cache': PLIM_PLAN_NO_CACHE},
        "alone": {'activations': 'pinned', 'optimizer_on': 'cpu', 'parameters_on': 'cpu', 'save': 'pretrained', 'checkpointing': 'full', 'liger': 'all'},
        "counts": {'from_files': 'from_count', 'extra_tensors': 'extra_tensor_count', 'calibrate': 'calibrate_count', 'recorded': 'recorded_count'},
        "releases": ['torch', 'transformers'],
        "sides": {'image_size': 'image_width', 'image_grid': 'image_grid_width'},
    },
    "report": {
        "names": {'max_memory': 'max_memory_bytes', 'log': 'log_path', 'owners': 'owners_max'},
        "flags": {'redact': PLIM_REPORT_REDACT, 'why': PLIM_REPORT_WHY},
        "alone": {},
        "counts": {},
        "releases": [],
        "sides": {},
    },
    "watch": {
        "names": {'nvml': 'nvml_path', 'max_memory': 'max_memory_bytes', 'log': 'log_path'},
        "flags": {'no_gpu': PLIM_WATCH_NO_GPU, 'no_stacks': PLIM_WATCH_NO_STACKS, 'here': PLIM_WATCH_HERE, 'redact': PLIM_WATCH_REDACT},
        "alone": {},
        "counts": {},
        "releases": [],
        "sides": {},
    },
    "whatif": {
        "names": {'log': 'log_path', 'limit': 'limit_bytes', 'allowance': 'allowance_bytes', 'budget': 'search_ms', 'max_memory': 'max_memory_bytes'},
        "flags": {'redact': PLIM_WHATIF_REDACT, 'smallest': PLIM_WHATIF_SMALLEST, 'search': PLIM_WHATIF_SEARCH, 'plan': PLIM_WHATIF_PLAN},
        "alone": {},
        "counts": {'settings': 'settings_count'},
        "releases": ['torch'],
        "sides": {},
    },
    "why": {
        "names": {'max_memory': 'max_memory_bytes', 'snapshot': 'snapshot_path', 'config': 'config_path'},
        "flags": {'redact': PLIM_WHY_REDACT, 'more': PLIM_WHY_MORE},
        "alone": {},
        "counts": {},
        "releases": [],
        "sides": {},
    },
}
