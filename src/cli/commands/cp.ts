import type { Command } from "commander";
import { toCount, toSize } from "../amount.ts";
import { type Copied, copyPlanned } from "../copy/copy.ts";
import { createLocalSide } from "../copy/localSide.ts";
import { parsePlace, type Place, type SandboxPath } from "../copy/place.ts";
import { type Plan, planCopy } from "../copy/plan.ts";
import { createSandboxSide } from "../copy/sandboxSide.ts";
import { CliFailure, EXIT } from "../failure.ts";
import { unknownSession } from "../folderSource.ts";
import { locateSandboxes, type WhereOptions } from "../locate.ts";
import type { CommandContext } from "../program.ts";
import type { Sandboxes } from "../sandboxes.ts";
import type { Screen } from "../screen.ts";
import { onInterrupt } from "../signals.ts";
import { toOneLine } from "../transcript/clean.ts";
import { addWhereOptions } from "../where.ts";

const EXAMPLES = `
One side is SESSION:PATH, a path in the session's sandbox, absolute or relative to its workspace; the other
is a local path. Folders are copied with all that is in them. A folder goes into a folder that is there
already, under its own name; with /. behind it, only what is in it goes. Links are skipped, with a note.
Contents are copied, not permission bits. A local path with a colon in it needs ./ in front.

Examples:
  sluice cp notes.md my-session:
  sluice cp ./src my-session:src
  sluice cp my-session:/mnt/session/outputs ./results
  sluice cp my-session:. ./workspace-copy
  sluice cp --json my-session:report.pdf . | jq .bytes

Exit codes: 0 done · 1 failed, or some files could not be copied · 2 bad usage · 130 interrupted
`;

interface CpOptions extends WhereOptions {
  readonly json?: boolean;
}

export function addCp(program: Command, context: CommandContext): void {
  const command = program
    .command("cp")
    .description("Copy files and folders into a session's sandbox, or out of it.")
    .argument("<src>", "a local path, or SESSION:PATH")
    .argument("<dst>", "the other of the two")
    .option("--json", "a summary as one JSON object");
  addWhereOptions(command)
    .addHelpText("after", EXAMPLES)
    .action(async (src: string, dst: string, options: CpOptions) => {
      context.exit(await cp(src, dst, options, context.screen));
    });
}

async function cp(src: string, dst: string, options: CpOptions, screen: Screen): Promise<number> {
  const [from, to] = [parsePlace(src), parsePlace(dst)];
  if (from.kind === to.kind) throw wrongSides(from.kind);
  const stop = new AbortController();
  const unhook = onInterrupt(() => stop.abort());
  const { signal } = stop;
  const sandboxes = await locateSandboxes(options);
  try {
    const [source, target] = [await toEnd(from, sandboxes), await toEnd(to, sandboxes)];
    const progress = new Progress(screen);
    const plan = await planCopy(source, target, { signal, onFound: (files) => progress.found(files) });
    for (const { path, reason } of plan.skipped) screen.note(`sluice: skipped ${printable(path)}: ${reason}`);
    const sides = { source: source.side, target: target.side };
    const copied = await copyPlanned(plan, sides, { signal, onProgress: (now) => progress.moved(now, plan) });
    for (const { path, reason } of copied.failed) screen.fail(`${printable(path)}: ${reason}`);
    await report(plan, copied, { src, to: target.side.show(plan.to), json: options.json ?? false }, screen);
    return copied.failed.length > 0 ? EXIT.failed : EXIT.ok;
  } catch (error) {
    if (signal.aborted) throw new CliFailure("Stopped; what was copied stays.", EXIT.interrupted);
    throw error;
  } finally {
    screen.status("");
    unhook();
    await sandboxes.close();
  }
}

async function report(
  plan: Plan,
  { files, folders, bytes, failed }: Copied,
  { src, to, json }: { src: string; to: string; json: boolean },
  screen: Screen,
): Promise<void> {
  if (json) {
    const summary = { from: src, to, files, folders, bytes, skipped: plan.skipped, failed };
    return screen.line(JSON.stringify(summary));
  }
  if (screen.isWatched)
    screen.note(`Copied ${toCount(files, "file")}, ${toSize(bytes)}, to ${printable(to)}`);
}

async function toEnd(place: Place, sandboxes: Sandboxes) {
  if (place.kind === "local") return { side: createLocalSide(place.path), path: place.path };
  const { session, path } = await choose(place.readings, sandboxes);
  return { side: createSandboxSide(sandboxes.files(session), session), path };
}

async function choose(readings: readonly SandboxPath[], sandboxes: Sandboxes): Promise<SandboxPath> {
  for (const reading of readings) if (await sandboxes.has(reading.session)) return reading;
  throw unknownSession(readings[0]?.session ?? "", sandboxes.where);
}

function wrongSides(kind: Place["kind"]): CliFailure {
  const why =
    kind === "local"
      ? "Neither side names a session. Write the one in the sandbox as SESSION:PATH."
      : "Both sides name a session. Copy to this machine first; a local path with a colon needs ./ in front.";
  return new CliFailure(why, EXIT.usage);
}

/** One line for whoever waits, a few times a second. */
class Progress {
  readonly #screen: Screen;
  #shown = 0;

  constructor(screen: Screen) {
    this.#screen = screen;
  }

  found(files: number): void {
    this.#show(() => `found ${toCount(files, "file")}`);
  }

  moved({ files, bytes }: Copied, plan: Plan): void {
    const total = (): number => plan.files.reduce((sum, file) => sum + file.size, 0);
    this.#show(
      () => `${files} of ${toCount(plan.files.length, "file")} · ${toSize(bytes)} of ${toSize(total())}`,
    );
  }

  #show(text: () => string): void {
    const now = Date.now();
    if (!this.#screen.isWatched || now - this.#shown < 100) return;
    this.#shown = now;
    this.#screen.status(text());
  }
}

function printable(path: string): string {
  return toOneLine(path, 200);
}
