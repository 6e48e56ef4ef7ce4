import { isRecord } from "../rpc.ts";
import { own } from "../transcript.ts";
import type { Properties } from "./events.ts";
import type { Page } from "./page.ts";

/** The session that the turns are about, as the server describes it. */
export function adoptSession(page: Page, info: unknown): undefined {
  if (!isRecord(info) || typeof info["id"] !== "string" || page.state.session !== undefined) return;
  if (typeof info["parentID"] === "string") return;
  page.set({ session: info["id"] });
  tellSession(page, info);
}

/** Its id is told once, with the first words of it. */
export function tellSession(page: Page, info: Properties = {}): void {
  const { session, isTold } = page.state;
  if (session === undefined || isTold) return;
  const { version, directory } = info;
  page.set({ isTold: true });
  page.scribe.add({
    type: "session.started",
    native_session_id: session,
    data: {
      metadata: {
        ...(typeof version === "string" ? { version } : {}),
        ...(typeof directory === "string" ? { directory } : {}),
      },
    },
  });
}

/** A sub-agent's session belongs to the one call of a task that has none yet; its call says so too, mostly first. */
export function readChild(page: Page, { info }: Properties): undefined {
  if (!isRecord(info) || typeof info["id"] !== "string" || !page.placeOf(info["parentID"])) return;
  const { children, calls } = page.work;
  if (own(children, info["id"]) !== undefined) return;
  const taken = new Set(Object.values(children));
  const tasks = Object.keys(calls).filter(
    (call) => page.scribe.transcript.calls[call]?.name === "task" && !taken.has(call),
  );
  if (tasks.length === 1 && tasks[0] !== undefined) bindChild(page, info["id"], tasks[0]);
}

export function bindChild(page: Page, session: string, call: string): void {
  if (page.isMain(session) || own(page.work.children, session) === call) return;
  page.setWork({ children: { ...page.work.children, [session]: call } });
}

/** The stream of events is new: where it is not the first, deltas of what is open may have been lost. */
export function loseTrack(page: Page): undefined {
  const open = Object.keys(page.scribe.transcript.texts);
  if (open.length === 0) return;
  page.setWork({
    torn: { ...page.work.torn, ...Object.fromEntries(open.map((part) => [part, true as const])) },
  });
}
