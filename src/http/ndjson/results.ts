import type { Context } from "hono";
import type { HeldBytes } from "../../catalog/bytes/port.ts";
import type { Change } from "../../catalog/port.ts";
import { createId, SluiceError } from "../../contract/index.ts";
import { streamBody } from "../body.ts";
import type { AppEnv } from "../env.ts";
import type { Mount } from "../mount.ts";
import { readParts } from "../multipart.ts";
import { ASSET_LIMITS, toAssetName, toFreeName } from "./asset-names.ts";
import type { Conversation } from "./conversations.ts";
import { ndjsonOperations } from "./operations.ts";
import { findPassword, passwordRefused, spend } from "./passwords.ts";
import { type AssetBody, KIND } from "./records.ts";
import type { NdjsonServices } from "./services.ts";

/** What a form adds around its files. */
const FORM_BYTES = 1024 * 1024;

interface Taken {
  readonly held: HeldBytes;
  readonly name: string;
  readonly mime: string;
}

/** The assets of a run. They count once the run has ended, and not at all where it was cancelled. */
export function mountResults(mount: Mount, services: NdjsonServices): void {
  const { catalog, conversations, engine } = services;

  mount(ndjsonOperations.results, async ({ c, query }) => {
    const owner = c.get("owner");
    const given = passwordOf(c);
    const { body: scope } = await findPassword(catalog, owner, given, query);
    const row = await engine.log.find(scope.conversation);
    if (!row) throw passwordRefused();
    // Before anything is read: what a cancelled run has made is not wanted.
    await conversations.with(owner, row, () => assertWanted(services, owner, scope.turn));
    const taken: Taken[] = [];
    try {
      for await (const one of readAssets(c, catalog)) taken.push(one);
      const assets = await conversations.with(owner, row, async (found) => {
        const password = await findPassword(catalog, owner, given, query);
        const isOver = await assertWanted(services, owner, scope.turn);
        const changes = toChanges(found, { taken, turn: scope.turn, state: isOver ? "written" : "staged" });
        await conversations.write(owner, found, [spend(password), ...changes]);
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

/** Whether the run is over; fails where it was cancelled. The password stays as it is: it expires unused. */
async function assertWanted(
  { conversations }: NdjsonServices,
  owner: string,
  turn: string,
): Promise<boolean> {
  const status = (await conversations.findTurn(owner, turn))?.body.status;
  if (status !== "interrupted") return status !== undefined;
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
  { taken, turn, state }: { taken: readonly Taken[]; turn: string; state: "staged" | "written" },
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
  const [, bearer] = /^Bearer +(\S+) *$/i.exec(c.req.header("authorization") ?? "") ?? [];
  return c.req.header("x-upload-otp")?.trim() ?? bearer;
}

function tooLarge(detail: string): SluiceError {
  return new SluiceError("too_large", detail);
}
