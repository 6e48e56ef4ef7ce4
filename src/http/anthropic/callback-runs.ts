import type { Document } from "../../catalog/port.ts";
import { fromSessionId } from "../../dialects/anthropic/ids.ts";
import type { CallbackRunBody } from "../../dialects/anthropic/resources/callback.ts";
import type { AnthropicServices } from "./services.ts";
import { SYSTEM_OWNER } from "./signing-key.ts";

export async function forgetCallbacks(
  { catalog, shelves }: AnthropicServices,
  session: string,
): Promise<void> {
  const { kind } = shelves.callbackRuns;
  if (await shelves.callbackRuns.find(SYSTEM_OWNER, session))
    await catalog.write(SYSTEM_OWNER, [{ op: "remove", kind, id: session }]);
}

/** Whoever was registered before is not heard any more. */
export function takeOver(
  { catalog, locks, shelves }: AnthropicServices,
  session: string,
  body: CallbackRunBody,
): Promise<void> {
  return locks.run(`callbacks ${session}`, async () => {
    const { callbackRuns } = shelves;
    if (await callbackRuns.find(SYSTEM_OWNER, session))
      return void (await callbackRuns.update(SYSTEM_OWNER, session, () => ({ replace: { body } })));
    await catalog.write(SYSTEM_OWNER, [{ op: "create", kind: callbackRuns.kind, id: session, body }]);
  });
}

export async function findRun(
  { shelves }: AnthropicServices,
  id: string,
): Promise<Document<CallbackRunBody> | undefined> {
  for (const session of fromSessionId(id)) {
    const found = await shelves.callbackRuns.find(SYSTEM_OWNER, session);
    if (found) return found;
  }
  return undefined;
}
