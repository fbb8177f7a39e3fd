const THREADS = 64u;
const ROUND_SLOTS = 3u;  // as in src/model/history.rs

@group(0) @binding(0) var<storage, read_write> step: Step;                // the target's
@group(0) @binding(1) var<storage, read_write> draft_step: Step;
@group(0) @binding(2) var<storage, read_write> round: array<u32>;         // tokens before, pending token, draft tokens, ids
@group(0) @binding(3) var<storage, read_write> seen: array<atomic<u32>>;  // one bit per id of the text, pending included
@group(0) @binding(4) var<storage, read_write> counts: array<atomic<u32>>;  // how often each id was generated
@group(0) @binding(5) var<storage, read_write> text: array<u32>;          // tokens, pending included
@group(0) @binding(6) var<storage, read_write> context_step: Step;

var<workgroup> first_rejected: atomic<u32>;

@compute @workgroup_size(THREADS)
fn main(@builtin(local_invocation_index) thread: u32) {
    let pending = step.token;
    let drafts = pending + 1u;
    let ids = step.out;
    let drafted = step.rows - 1u;
    let position = step.position;
    if (thread == 0u) {
        atomicStore(&first_rejected, drafted);
    }
    workgroupBarrier();
    if (thread < drafted && round[drafts + thread] != round[ids + thread]) {
        atomicMin(&first_rejected, thread);
    }
    workgroupBarrier();
    let accepted = atomicLoad(&first_rejected);
    let token = round[select(ids + accepted, thread + 1u + accepted, thread < pending)];
    storageBarrier();
    if (thread <= pending) {
        round[thread] = token;
    }
    if (thread <= accepted) {
        let id = round[ids + thread];
        if (id / 32u < arrayLength(&seen)) {
            atomicOr(&seen[id / 32u], 1u << (id % 32u));
        }
        if (id < arrayLength(&counts)) {
            atomicAdd(&counts[id], 1u);
        }
        if (position + 1u + thread < arrayLength(&text)) {
            text[position + 1u + thread] = id;
        }
    }
    if (thread == 0u) {
        step.position = position + 1u + accepted;
        if (step.save_at != UNSAVED) {
            step.slot = step.save_slot;
            step.base = step.save_at;
        }
        step.save_slot = (step.save_slot + 1u) % ROUND_SLOTS;
        step.save_at = step.position;
        let missed = draft_step.missed;
        draft_step.position = position + 1u + accepted - missed - draft_step.lead;
        draft_step.rows = missed + 1u + draft_step.masks;
        draft_step.token = pending - missed;
        draft_step.logit_row = missed + draft_step.skipped;
        draft_step.out = drafts;
        draft_step.draft_row = 0u;
        draft_step.save_slot = (draft_step.save_slot + 1u) % ROUND_SLOTS;
        draft_step.save_at = draft_step.position;
        context_step.position = step.position - context_step.missed;
        context_step.rows = context_step.missed;
    }
}
