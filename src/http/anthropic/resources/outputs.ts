import type { Document } from "../../../catalog/port.ts";
import { SluiceError } from "../../../contract/index.ts";
import { type FileBody, toMimeType } from "../../../dialects/anthropic/resources/file.ts";
import type { Engine } from "../../../sessions/port.ts";
import { createId } from "../dialect.ts";
import type { TenantScope } from "../route.ts";

type SandboxFiles = Awaited<ReturnType<Engine["files"]>>;
type FileEntry = Awaited<ReturnType<SandboxFiles["stat"]>>;

const OUTPUTS = "/mnt/session/outputs";
const MAX_OUTPUTS = 100;

/** Copies the agent's output files into the catalog. A file keeps its id while its path exists. */
export async function collectOutputs(scope: TenantScope, session: string): Promise<void> {
  const { engine, locks, collections } = scope;
  const info = await engine.info(session).catch(() => undefined);
  if (!info || !(await collections.sessions.find(scope.tenant, session))) return;
  await locks.run(`outputs ${session}`, async () => {
    // A list of files creates no sandbox.
    const files = await engine.files(session, { onlyExisting: true }).catch(undefinedIfRefused);
    if (!files) return;
    const known = await collections.files.list(scope.tenant, { parent: session, limit: 10_000 });
    const outputs = known.filter(({ labels }) => labels["output"] !== undefined);
    for (const entry of await readOutputs(files, OUTPUTS)) {
      const before = outputs.find(({ labels }) => labels["output"] === entry.path);
      if (before?.labels["stamp"] === stampOf(entry)) continue;
      await storeOutput(scope, { session, files, entry, before });
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

async function storeOutput(
  { catalog, collections, limits, tenant }: TenantScope,
  { session, files, entry, before }: Output,
): Promise<void> {
  if (entry.size > limits.upload) return;
  const opened = await files.open(entry.path).catch(() => undefined);
  // The agent has removed the file meanwhile, or let it grow.
  if (!opened || opened.size > limits.upload) return;
  const held = await catalog.bytes.write(opened.content);
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
    const { kind } = collections.files;
    await catalog.write(tenant, [
      before
        ? { op: "replace", kind, id: before.id, expect: before.revision, ...content }
        : { op: "create", kind, id: createId("file"), parent: session, ...content },
    ]);
  } finally {
    await held.release();
  }
}

function stampOf({ version, size, modified }: FileEntry): string {
  return version ?? `${size} ${modified}`;
}

function undefinedIfRefused(error: unknown): undefined {
  if (error instanceof SluiceError) return undefined;
  throw error;
}
