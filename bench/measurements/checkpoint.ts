import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { createCheckpoints } from "../../src/sandbox/checkpoint/checkpoints.ts";
import { createFolderStorage } from "../../src/sandbox/checkpoint/storage/folder.ts";
import type { Checkpoints } from "../../src/sandbox/checkpoint/port.ts";
import { ROOT, withFolder } from "../environment.ts";
import type { Measurement, Plan } from "../plan.ts";
import { median, toRow, type Row } from "../report/row.ts";

const FILES = 22_000;
const QUICK_FILES = 5_500;
const MB = 1e6;
const LARGEST = 1_500_000;

interface Round extends ArchiveRound {
  full: number;
  three: number;
  fresh: number;
  back: number;
  stored: number;
}

interface ArchiveRound {
  tar: number;
  untar: number;
  archived: number;
}

/** (k) A checkpoint of a tree of 200 MB, whole and with three files changed, and back, against an archive of it. */
export const checkpoint: Measurement = {
  id: "k",
  title: "checkpoint and restore of 200 MB",
  measure: (plan) =>
    withFolder(async (folder) => {
      const workspace = join(folder, "workspace");
      const files = plan.quick ? QUICK_FILES : FILES;
      plan.progress("planting");
      const bytes = plantTree(workspace, files);
      const codec = await findCodec();
      const rounds: Round[] = [];
      for (let n = 0; n < plan.rounds; n++) {
        plan.progress(`round ${n + 1} of ${plan.rounds}`);
        const options = { workspace, codec, archiveFirst: n % 2 === 1 };
        rounds.push(await measureRound(join(folder, `round-${n}`), options));
      }
      return toRows(rounds, { files, bytes, codec, plan });
    }),
};

/** Thousands of new files cost the kernel more each time, so the two alternate in going first. */
async function measureRound(
  folder: string,
  options: { workspace: string; codec: readonly string[]; archiveFirst: boolean },
): Promise<Round> {
  mkdirSync(folder);
  const archive = (): Promise<ArchiveRound> => measureArchive(folder, options);
  const first = options.archiveFirst ? await archive() : undefined;
  const own = await measureOwn(folder, options.workspace);
  const round = { ...own, ...(first ?? (await archive())) };
  rmSync(folder, { recursive: true });
  return round;
}

async function measureOwn(folder: string, workspace: string): Promise<Omit<Round, keyof ArchiveRound>> {
  const storage = join(folder, "storage");
  const checkpoints = createCheckpoints({
    storage: createFolderStorage(storage),
    cacheFolder: join(folder, "cache"),
  });
  // Files that changed a moment ago would be read twice.
  await sleep(200);
  const take = (): ReturnType<Checkpoints["checkpoint"]> => checkpoints.checkpoint({ roots: { workspace } });
  const full = await time(take);
  const stored = measureSize(storage);
  changeThree(workspace);
  const three = await time(take);
  const target = join(folder, "target");
  const restore = (): ReturnType<Checkpoints["restore"]> =>
    checkpoints.restore("latest", { roots: { workspace: target } });
  const fresh = await time(restore);
  changeThree(target);
  const back = await time(restore);
  return { full, three, fresh, back, stored };
}

async function measureArchive(
  folder: string,
  { workspace, codec }: { workspace: string; codec: readonly string[] },
): Promise<ArchiveRound> {
  const archive = join(folder, "archive");
  const tar = await time(() => shell(`tar -C "$1" -cf - . | ${codec.join(" ")} > "$2"`, workspace, archive));
  const untarred = join(folder, "untarred");
  mkdirSync(untarred);
  const untar = await time(() => shell(`${codec[0]} -dc < "$2" | tar -C "$1" -xf -`, untarred, archive));
  return { tar, untar, archived: statSync(archive).size };
}

function toRows(
  rounds: readonly Round[],
  facts: { files: number; bytes: number; codec: readonly string[]; plan: Plan },
): Row[] {
  const { files, bytes, codec } = facts;
  const what = `tar | ${codec.join(" ")}`;
  const of = (pick: (round: Round) => number): number[] => rounds.map(pick);
  const tar = { what, value: median(of((round) => round.tar)) };
  const untar = { what: `${codec[0]} -d | tar -x`, value: median(of((round) => round.untar)) };
  const note = `${files.toLocaleString("en-US")} files, ${Math.round(bytes / MB)} MB. The storage is synced to disk, the archive is not.`;
  const row = { id: "k", unit: "ms" };
  return [
    toRow({ ...row, what: "checkpoint, whole tree", rounds: of((round) => round.full), against: tar, note }),
    toRow({
      ...row,
      what: "checkpoint, three files changed",
      rounds: of((round) => round.three),
      against: tar,
      target: "< 1×",
      reached: ({ ratio }) => ratio < 1,
    }),
    toRow({
      ...row,
      what: "restore into an empty folder",
      rounds: of((round) => round.fresh),
      against: untar,
    }),
    toRow({
      ...row,
      what: "restore, three files changed",
      rounds: of((round) => round.back),
      against: untar,
      target: "< 1×",
      reached: ({ ratio }) => ratio < 1,
    }),
    toRow({
      id: "k",
      what: "stored",
      unit: "MB",
      rounds: of((round) => round.stored / MB),
      against: { what, value: median(of((round) => round.archived / MB)) },
    }),
  ];
}

/** The text files of our dependencies, repeated, each with a line of its own so that no two are equal. */
function plantTree(root: string, files: number): number {
  const source = join(ROOT, "node_modules");
  const found = readdirSync(source, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.(?:[cm]?[jt]s|json|md|map)$/.test(entry.name))
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((file) => !file.includes("/.cache/") && statSync(file).size < LARGEST);
  let bytes = 0;
  for (let n = 0; n < files; n++) {
    const from = found[n % found.length] ?? "";
    const copy = `copy-${Math.floor(n / found.length)}`;
    const to = join(root, copy, relative(source, from).replaceAll("node_modules", "lib"));
    const text = `${copy} of ${from}\n${readFileSync(from, "utf8")}`;
    mkdirSync(dirname(to), { recursive: true });
    writeFileSync(to, text);
    bytes += Buffer.byteLength(text);
  }
  return bytes;
}

let changes = 0;

function changeThree(root: string): void {
  for (const n of [1, 2, 3]) writeFileSync(join(root, "copy-0", `changed-${n}`), `change ${++changes}`);
}

async function findCodec(): Promise<readonly string[]> {
  const found = await shell("command -v zstd").then(
    () => true,
    () => false,
  );
  return found ? ["zstd", "-3", "-q", "-T0"] : ["gzip", "-1"];
}

async function time(work: () => Promise<unknown>): Promise<number> {
  const begun = performance.now();
  await work();
  return performance.now() - begun;
}

async function shell(script: string, ...args: string[]): Promise<void> {
  const child = spawn("sh", ["-c", script, "sh", ...args], { stdio: "ignore" });
  const [code] = await once(child, "close");
  if (code !== 0) throw new Error(`${script} ended with ${String(code)}`);
}

function measureSize(folder: string): number {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
  const sizes = entries
    .filter((entry) => entry.isFile())
    .map((entry) => statSync(join(entry.parentPath, entry.name)).size);
  return sizes.reduce((sum, size) => sum + size, 0);
}
