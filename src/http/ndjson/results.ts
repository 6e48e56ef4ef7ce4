import type { Context } from "hono";
import { z } from "zod";
import type { Change, HeldBytes } from "../../catalog/port.ts";
import { createId, SluiceError } from "../../contract/index.ts";
import { MIME_TYPES } from "../../dialects/shared/mime.ts";
import { bearerOf } from "../auth.ts";
import { readParts } from "../body/multipart.ts";
import { streamBody } from "../body/read.ts";
import type { AppEnv } from "../context.ts";
import { defineOperations, json, type Mount } from "../operation.ts";
import type { Conversation } from "./conversations.ts";
import { type NdjsonServices, RESULTS } from "./dialect.ts";
import { type AssetBody, KIND } from "./documents.ts";
import * as responses from "./responses.ts";
import { findPassword, findTenant, passwordRefused, toSpentChange } from "./passwords.ts";

/** Room for the headers and boundaries of a form around its files. */
const FORM_BYTES = 1024 * 1024;

interface Taken {
  readonly held: HeldBytes;
  readonly name: string;
  readonly mime: string;
}

type AssetState = "staged" | "written";

const ResultsQuery = z.object({
  conversation: z.string().optional(),
  turn: z.string().optional(),
});

export const resultOperations = defineOperations({
  ndjsonResults: {
    method: "POST",
    path: RESULTS,
    scope: "open",
    tag: "ndjson",
    summary: "Takes the assets of a run, once, with the one-time password of its dispatch",
    query: ResultsQuery,
    body: { kind: "bytes", mime: "multipart/form-data", schema: responses.AssetForm },
    answer: json("The accepted assets", responses.AcceptedAssets),
    errors: ["invalid_request", "token_invalid", "precondition_failed", "too_large"],
  },
});

/** Takes the assets of a run. They appear when the run ends; those of a cancelled run are dropped. */
export function mountResults(mount: Mount, services: NdjsonServices): void {
  const { catalog, conversations, engine } = services;

  mount(resultOperations.ndjsonResults, async ({ c, query }) => {
    const given = passwordOf(c);
    // The sender has no token: the password itself says whose run it is.
    const tenant = await findTenant(catalog, given);
    const { body: scope } = await findPassword(catalog, tenant, given, query);
    const row = await engine.log.find(scope.conversation);
    if (!row) throw passwordRefused();
    // Refuses the assets of a cancelled run before the body is read.
    await conversations.with(tenant, row, () => assetState(services, tenant, scope.turn));
    const taken: Taken[] = [];
    try {
      for await (const one of readAssets(c, catalog)) taken.push(one);
      const assets = await conversations.with(tenant, row, async (found) => {
        const password = await findPassword(catalog, tenant, given, query);
        const state = await assetState(services, tenant, scope.turn);
        const changes = toChanges(found, { taken, turn: scope.turn, state });
        await conversations.write(tenant, found, [toSpentChange(password), ...changes]);
        return changes;
      });
      const { conversation, turn } = scope;
      return c.json({
        conversation,
        turn,
        assets: assets.map(({ id, body }) => toWire(id, body as AssetBody)),
      });
    } finally {
      for (const { held } of taken) await held.release();
    }
  });
}

/**
 * The state of assets that come now: staged until the run ends. Throws if the run was cancelled; its password then stays
 * unused until it expires.
 */
async function assetState(
  { conversations }: NdjsonServices,
  tenant: string,
  turn: string,
): Promise<AssetState> {
  const status = (await conversations.findTurn(tenant, turn))?.body.status;
  if (status !== "interrupted") return status === undefined ? "staged" : "written";
  throw new SluiceError("precondition_failed", "The run was cancelled, so its assets are not written back.");
}

async function* readAssets(c: Context<AppEnv>, catalog: NdjsonServices["catalog"]): AsyncGenerator<Taken> {
  const names = new Set<string>();
  let total = 0;
  const source = streamBody(c, ASSET_LIMITS.totalBytes + FORM_BYTES);
  for await (const part of readParts(source, c.req.header("content-type"))) {
    if (part.filename === undefined) continue;
    if (names.size === ASSET_LIMITS.files)
      throw tooLarge(`A run can write back ${ASSET_LIMITS.files} files at most.`);
    const { name: wanted, mime } = toAssetName(part.filename);
    const name = toFreeName(wanted, names);
    names.add(name);
    const held = await catalog.bytes.write(part.content, { limit: ASSET_LIMITS.fileBytes });
    yield { held, name, mime };
    total += held.size;
    if (total > ASSET_LIMITS.totalBytes)
      throw tooLarge(`A run can write back ${ASSET_LIMITS.totalBytes} bytes at most.`);
  }
  if (names.size === 0) throw new SluiceError("invalid_request", "The form has no file in it.");
}

function toChanges(
  { id: parent }: Conversation,
  { taken, turn, state }: { taken: readonly Taken[]; turn: string; state: AssetState },
): Extract<Change, { op: "create" }>[] {
  return taken.map(({ held: { hash, size }, name, mime }) => {
    const body: AssetBody = { name, mime, size, hash, turn };
    const id = createId("item").replace("itm_", "asset_");
    return { op: "create", kind: KIND.asset, id, parent, body, labels: { turn, state }, bytes: [hash] };
  });
}

export function toWire(id: string, { name, mime, size, turn }: AssetBody): object {
  return { id, name, mime, size, turn };
}

function passwordOf(c: Context<AppEnv>): string | undefined {
  return c.req.header("x-upload-otp")?.trim() ?? bearerOf(c);
}

function tooLarge(detail: string): SluiceError {
  return new SluiceError("too_large", detail);
}

/** Limits on the assets of one run. */
const ASSET_LIMITS = { files: 20, fileBytes: 25 * 1024 * 1024, totalBytes: 50 * 1024 * 1024 } as const;

const MAX_NAME = 128;

const TYPES: Readonly<Record<string, string>> = {
  ...MIME_TYPES,
  jsonl: "application/x-ndjson",
  mp3: "audio/mpeg",
  mp4: "video/mp4",
  ndjson: "application/x-ndjson",
  patch: "text/x-diff",
  tsv: "text/tab-separated-values",
  wav: "audio/wav",
  webm: "video/webm",
};

/** A name that is safe in every file system, and the MIME type of its extension. Throws for unknown extensions. */
function toAssetName(filename: string): { name: string; mime: string } {
  const last = filename.split(/[/\\]/).at(-1) ?? "";
  const plain = last.replaceAll(/[^A-Za-z0-9._-]+/g, "_").replace(/^\.+/, "");
  const [stem, extension] = split(plain);
  const mime = Object.hasOwn(TYPES, extension.toLowerCase()) ? TYPES[extension.toLowerCase()] : undefined;
  if (mime === undefined) {
    const kinds = Object.keys(TYPES).sort().join(", ");
    const detail = `${JSON.stringify(last.slice(0, MAX_NAME))} is no kind of file that a run can write back. Kinds: ${kinds}.`;
    throw new SluiceError("invalid_request", detail);
  }
  return { name: `${(stem || "file").slice(0, MAX_NAME)}.${extension}`, mime };
}

/** Adds a number to the second and later files of one name. */
function toFreeName(name: string, taken: ReadonlySet<string>): string {
  const [stem, extension] = split(name);
  let free = name;
  for (let count = 2; taken.has(free); count += 1) free = `${stem}-${count}.${extension}`;
  return free;
}

function split(name: string): [stem: string, extension: string] {
  const dot = name.lastIndexOf(".");
  return dot < 0 ? [name, ""] : [name.slice(0, dot), name.slice(dot + 1)];
}
