import type { Document } from "../../catalog/port.ts";
import { SluiceError } from "../../contract/index.ts";
import { type FileBody, toMimeType } from "../../dialects/anthropic/resources/file.ts";
import type { Engine } from "../../sessions/port.ts";
import { createId } from "./ids.ts";
import type { AnthropicServices } from "./services.ts";

type SandboxFiles = Awaited<ReturnType<Engine["files"]>>;
type FileEntry = Awaited<ReturnType<SandboxFiles["stat"]>>;

const OUTPUTS = "/mnt/session/outputs";
const MAX_OUTPUTS = 100;

/** What the agent has put into its outputs by now becomes files of its session, each under one id for as long as it is there. */
export async function collectOutputs(
  services: AnthropicServices,
  owner: string,
  session: string,
): Promise<void> {
  const { engine, locks, shelves } = services;
  const info = await engine.info(session).catch(() => undefined);
  // A session that nobody has spoken to has no sandbox, and needs none for this.
  if (!info || info.eventCount === 0 || !(await shelves.sessions.find(owner, session))) return;
  await locks.run(`outputs ${session}`, async () => {
    const files = await engine.files(session).catch(whereGone);
    if (!files) return;
    const known = await shelves.files.list(owner, { parent: session, limit: 10_000 });
    const outputs = known.filter(({ labels }) => labels["output"] !== undefined);
    for (const entry of await readOutputs(files, OUTPUTS)) {
      const before = outputs.find(({ labels }) => labels["output"] === entry.path);
      if (before?.labels["stamp"] === stampOf(entry)) continue;
      await keep(services, owner, { session, files, entry, before });
    }
  });
}

async function readOutputs(files: SandboxFiles, folder: string): Promise<FileEntry[]> {
  const found: FileEntry[] = [];
  const folders = [folder];
  for (let next = folders.pop(); next !== undefined; next = folders.pop()) {
    for (const entry of await files.list(next)) {
      if (entry.entryType === "directory") folders.push(entry.path);
      if (entry.entryType === "file") found.push(entry);
      if (found.length === MAX_OUTPUTS) return found;
    }
  }
  return found;
}

interface Output {
  readonly session: string;
  readonly files: SandboxFiles;
  readonly entry: FileEntry;
  readonly before: Document<FileBody> | undefined;
}

async function keep(
  { catalog, shelves, limits }: AnthropicServices,
  owner: string,
  { session, files, entry, before }: Output,
): Promise<void> {
  if (entry.size > limits.upload) return;
  const bytes = await files.read(entry.path).catch(() => undefined);
  // It has gone while we looked.
  if (!bytes) return;
  const held = await catalog.bytes.write(toSource(bytes));
  try {
    const body: FileBody = {
      filename: entry.name,
      mime_type: toMimeType(undefined, entry.name),
      size_bytes: held.size,
      downloadable: true,
      expires_at: null,
      scope: { type: "session", id: session },
      content: held.hash,
    };
    const content = {
      body,
      labels: { output: entry.path, stamp: stampOf(entry) },
      bytes: [held.hash],
    };
    const { kind } = shelves.files;
    await catalog.write(owner, [
      before
        ? { op: "replace", kind, id: before.id, expect: before.revision, ...content }
        : { op: "create", kind, id: createId("file"), parent: session, ...content },
    ]);
  } finally {
    await held.release();
  }
}

async function* toSource(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}

function stampOf({ size, modified }: FileEntry): string {
  return `${size} ${modified}`;
}

function whereGone(error: unknown): undefined {
  if (error instanceof SluiceError) return undefined;
  throw error;
}
