import { mkdirSync, readdirSync } from "node:fs";
import { isAbsolute, join } from "node:path";
import { type CassetteSpec, SluiceError } from "../../contract/index.ts";
import type { CassetteLaunch } from "../../contract/process.ts";
import { CassetteProblem, hasLines, readCassette, toPlainPath } from "../../gateway/cassette/tape.ts";
import type { DeskAnswer } from "../../gateway/desk.ts";
import type { Harness } from "../../harness/port.ts";
import { PINNED } from "../../sandbox/host/files/paths.ts";
import type { SandboxPaths } from "../../sandbox/port.ts";
import { readIdentity } from "./scrub.ts";

/** The most cassettes of a workspace, which has no other limit for them. */
const MOST_CASSETTES = 100;

interface Place {
  /** The folder of the named cassettes. */
  readonly root: string;
  readonly tenant?: string | undefined;
}

/** The file of a cassette. A name without a slash belongs to the session's workspace. */
export function toCassetteFile(file: string, { root, tenant }: Place): string {
  if (isAbsolute(file)) return toPlainPath(file);
  if (!/^[A-Za-z0-9_][\w.-]{0,127}$/.test(file)) {
    const detail = `cassette.file "${file}": give a name of letters, digits, dots and dashes, or an absolute path.`;
    throw new SluiceError("invalid_request", detail);
  }
  const folder = join(root, tenant === undefined ? "own" : `workspace-${encodeURIComponent(tenant)}`);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  return toPlainPath(join(folder, file));
}

export function toCassetteLaunch(cassette: CassetteSpec, place: Place): CassetteLaunch {
  const { mode, speed } = cassette;
  return asRefusal(() => ({
    file: toCassetteFile(cassette.file, place),
    mode,
    ...(speed === undefined ? {} : { speed }),
  }));
}

/** Refuses a cassette that a new session could not use. */
export function refuseCassette(
  cassette: CassetteSpec | undefined,
  { title, lead }: Pick<Harness, "title" | "lead">,
  place: Place,
): void {
  if (cassette === undefined) return;
  if (lead === undefined) {
    const detail = `${title} is not led through the model gateway, so its model cannot be recorded or replayed. Leave "cassette" out.`;
    throw new SluiceError("invalid_request", detail);
  }
  asRefusal(() => {
    const file = toCassetteFile(cassette.file, place);
    if (cassette.mode === "replay") return void readCassette(file);
    const isUsed = hasLines(file);
    if (cassette.mode === "record" && isUsed)
      throw new CassetteProblem(
        cassette.file,
        'has recordings already. Remove it, or use the mode "auto", which adds to it.',
      );
    if (!isUsed && place.tenant !== undefined) refuseMany(file);
  });
}

function refuseMany(file: string): void {
  if (readdirSync(join(file, "..")).length < MOST_CASSETTES) return;
  throw new SluiceError("invalid_request", `A workspace has at most ${MOST_CASSETTES} cassettes.`);
}

/** The provider of a cassette's recording. It decides which of its keys the agent is started with. */
export function recordedProvider({ file }: CassetteLaunch): string | undefined {
  return asRefusal(() => (hasLines(file) ? readCassette(file)[0]?.provider : undefined));
}

/** The error for an agent that could run, but without a recording or a replay. */
export function notLed(place: string): SluiceError {
  return new SluiceError("invalid_request", `The session's cassette cannot be used. ${whyNotLed(place)}`);
}

function whyNotLed(place: string): string {
  if (place === "plan_login")
    return "The agent uses the login of a plan, which only its own CLI may use: a cassette needs a key.";
  if (place === "binary")
    return "The provider sends its answers in a binary form, which cannot be searched for secrets.";
  if (place === "none")
    return "There is no key of the agent's model provider to record with. Set one, or replay.";
  return "The agent is not led through the model gateway here: a cassette needs a sandbox on this machine, with bwrap or docker the default network or allowed hosts, with local no proxy in the session's variables, and a key that is not lent by a vault.";
}

/** The values that a cassette must not contain: the session's secrets, and the names of this machine's user. */
export function toHidden(secrets: ReadonlyMap<string, string>): NonNullable<DeskAnswer["hidden"]> {
  const { home, email, name } = readIdentity();
  const hidden = new Map<string, string>();
  const add = (value: string | undefined, placeholder: string): void => {
    if (value !== undefined && value.length >= 6 && !hidden.has(value)) hidden.set(value, placeholder);
  };
  for (const [label, value] of secrets) {
    add(value, `[redacted:${label}]`);
    for (const line of value.split("\n")) if (line.length >= 16) add(line, `[redacted:${label}]`);
  }
  // The homes of root and of the sandbox identify nobody.
  if (home !== "/root" && home !== "/home/user") add(home, "/home/user");
  add(email, "user@example.com");
  add(name, "User Name");
  return [...hidden].map(([value, placeholder]) => ({ value, placeholder }));
}

/** The agent's folders under the names that they have in an isolated sandbox, so that any other one can replay them. */
export function toFolders({ workspace, home }: SandboxPaths): NonNullable<DeskAnswer["folders"]> {
  const pairs = [
    { here: workspace, recorded: PINNED.workspace },
    { here: home, recorded: PINNED.home },
  ].filter(({ here, recorded }) => here !== recorded);
  // Claude Code names its folder of a project by the project's path, with dashes.
  const named = pairs.map(({ here, recorded }) => ({ here: toDashes(here), recorded: toDashes(recorded) }));
  return [...pairs, ...named];
}

function toDashes(path: string): string {
  return path.replaceAll(/[^A-Za-z0-9]/g, "-");
}

function asRefusal<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (error instanceof CassetteProblem) throw new SluiceError("invalid_request", error.message);
    throw error;
  }
}
