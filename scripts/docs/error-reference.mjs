/** What to do about each error code. A test compares the codes with the table in src/contract/errors.ts. */
export const CURES = {
  invalid_request:
    "Read `detail`: it names the field. `GET /openapi.json` has the schema of every body. A session is refused here too if it could never start, such as one with a missing `directory`.",
  invalid_cursor:
    "Send a sequence from the log (`sequence` of an event, `id:` of a frame), or no cursor at all.",
  unsupported_agent:
    "Use an id from `GET /v1/agents` or `sluice doctor`. An agent that has no adapter runs as `acp`.",
  unsupported_sandbox:
    "Run `sluice doctor`: it prints one command that makes bwrap or Docker work. `--sandbox local` runs without isolation.",
  capability_missing:
    "Use another sandbox. `local` has no network policy, and no pause on macOS. `docker` needs a running engine.",
  mode_not_supported: "Use a mode that the agent has: `sluice doctor --json` and `GET /v1/agents` list them.",
  foreign_host:
    "Start the server with `--allow-host NAME` for the name that your proxy or your browser uses.",
  foreign_origin:
    "Start the server with `--allow-origin https://your.page`. A page of the server's own host needs none.",
  token_invalid:
    "Send `Authorization: Bearer TOKEN`. The token is in the file `token` of the data folder; `sluice doctor` names the folder. A token of `sluice token create` may be revoked or expired: `sluice token list` shows those that are valid.",
  permission_denied:
    "The path leads out of the sandbox, or the token may not do this: `detail` names the scope that is needed. Use a path in the workspace, or another token (`sluice token create`).",
  agent_not_installed:
    "Install the agent's CLI for the user who runs the server, and on that user's PATH. `sluice doctor` prints the command.",
  not_found: "Check the path and the method against the [HTTP reference](http.md).",
  method_not_allowed: "Use a method of the header `Allow`, or of the [HTTP reference](http.md).",
  session_not_found:
    "List the sessions with `sluice sessions`. A session may have been deleted, by `--keep` or its `ttl` too.",
  action_not_found: "Read `pendingActions` of the session: it lists what waits for an answer.",
  input_not_found: "List the inputs that wait with `GET /v1/sessions/{id}/inputs`.",
  input_not_waiting:
    "Read the queue again. The input's turn has begun, or somebody has withdrawn it: `detail` says which.",
  checkpoint_not_found: "List the checkpoints with `sluice checkpoints ID`. Each `shelf` has its own.",
  file_not_found: "List the folder with `GET /v1/fs/entries`. Paths are relative to the workspace.",
  session_already_exists: "Use the session, or choose another id.",
  session_ended: "Start a new session. `fork: {session}` copies the files and the memory of this one.",
  session_busy:
    'Wait for the turn or the command, interrupt it, or send the message without `delivery: "alone"`: it then waits in order. From the command line, another server may hold the session.',
  already_resolved: "Nothing is to be done: the answer in `detail` was first.",
  idempotency_conflict: "Use a new `Idempotency-Key` for new content.",
  version_conflict: "Read the resource again and repeat the change with its new version.",
  name_taken: "Choose another name, or use the resource that has it.",
  cursor_gone:
    "Read from `oldest` on, which the answer names: older events were trimmed. A cursor beyond `head` belongs to another log.",
  precondition_failed: "Read the current state and decide again: it is not what the request assumed.",
  too_large: "Send less: at most 32 MB of JSON. Files go through `PUT /v1/fs/file`, which has no such limit.",
  rate_limited: "Wait for the seconds in `retry-after`. The operator sets the limit with `--rate-limit`.",
  internal: "Read the server's stderr, which has the cause. It is a defect of sluice: please report it.",
  agent_process_exited:
    "Read the last `error` event and the agent's stderr in the log. Often it is a missing key, an expired login or too little memory.",
  fenced: "Nothing is to be done: another server owns the session now. Ask that one.",
  stream_error:
    "Connect again with the last sequence. For a port of a sandbox: start the program that should listen there.",
  draining:
    "Wait for the server's next start and repeat the request. A resend with the same `Idempotency-Key` is safe.",
  timeout: "Repeat the request. If it stays, look for a slow disk or for another process on the data folder.",
  storage_unavailable:
    "Start the database, or wait until it has failed over. Sessions go on by themselves; a resend with the same `Idempotency-Key` is safe.",
  unsupported_database: "Install the package that the detail names, in the project or beside `sluice`.",
  sandbox_unreachable:
    "Wait, or look whether the machine is up: `ssh user@host true`. What runs there goes on, and the session with it.",
  storage_full: "Free space on the disk of the data folder. `--keep` and `--keep-bytes` limit the log.",
  data_version:
    "A newer sluice has written the data folder. Start that version again, or restore the backup from before the upgrade.",
};

export function toErrorReference(errors) {
  const rows = Object.entries(errors).map(
    ([code, { status, title, retryable }]) =>
      `| \`${code}\` | ${status} | ${title}.${retryable ? " A retry may help." : ""} | ${CURES[code] ?? ""} |`,
  );
  return ["| code | status | meaning | cure |", "|---|---|---|---|", ...rows, ""].join("\n");
}
