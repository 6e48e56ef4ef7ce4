import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { say } from "../core/announce.ts";
import { client, createKey, may, wordsOf } from "../core/api.ts";
import { useKeys } from "../core/keys.ts";
import { go } from "../core/route.ts";
import { isFile, type SessionView } from "../core/session-view.ts";
import { Confirm } from "../parts/dialog.tsx";
import { Icon } from "../parts/icon.tsx";

/** What can be done to the whole session. Controls that this browser may not use are not there. */
export function Actions({ view }: { view: SessionView }): JSX.Element | null {
  const [isOpen, setOpen] = useState(false);
  const [asking, setAsking] = useState<"terminate" | "delete" | undefined>(undefined);
  const moment = view.moment.value;
  const { id } = view;
  const can = may("control") && !isFile();
  const run = (work: () => Promise<unknown>, words: string) => async () => {
    setOpen(false);
    try {
      await work();
      say(words);
    } catch (error) {
      say(wordsOf(error), "bad");
    }
  };
  const askFor = (what: "terminate" | "delete"): void => {
    setOpen(false);
    setAsking(what);
  };
  const fork = (): void => {
    if (!moment?.checkpoint) return say("Make a checkpoint first: a fork starts at one.", "bad");
    const name = `${id}-fork-${Date.now().toString(36)}`.slice(-100);
    void forkSession(id, name, moment.checkpoint.id);
  };
  useKeys(can ? [{ keys: "f", label: "fork from here", run: fork }] : []);
  if (!moment || !can) return null;
  return (
    <div
      class="menu"
      onKeyDown={(event) => {
        if (event.key !== "Escape" || !isOpen) return;
        event.stopPropagation();
        setOpen(false);
        event.currentTarget.querySelector("button")?.focus();
      }}
    >
      <button aria-expanded={isOpen} aria-label="Actions" onClick={() => setOpen(!isOpen)}>
        <Icon name="gear" />
      </button>
      {isOpen && (
        <div class="menu-list" role="group" aria-label="Actions">
          {/* From the past leads nothing but a fork. */}
          {view.at.value === null && (
            <button
              onClick={run(
                () => client.checkpoints.create(id, { idempotencyKey: createKey() }),
                "Checkpoint made",
              )}
            >
              Make a checkpoint
            </button>
          )}
          <button disabled={!moment.checkpoint} onClick={fork}>
            {moment.checkpoint ? "Fork from here" : "Fork from here (make a checkpoint first)"} <kbd>f</kbd>
          </button>
          {view.at.value === null && (
            <>
              {moment.checkpoint && (
                <button
                  onClick={run(
                    () => client.checkpoints.restore(id, moment.checkpoint?.id ?? "latest"),
                    "Files restored",
                  )}
                >
                  Restore the last checkpoint
                </button>
              )}
              {moment.paused ? (
                <button onClick={run(() => client.resume(id), "Resumed")}>Resume</button>
              ) : (
                <button onClick={run(() => client.pause(id), "Paused")}>Pause</button>
              )}
              <button onClick={() => askFor("terminate")}>Terminate…</button>
              <button class="danger" onClick={() => askFor("delete")}>
                Delete…
              </button>
            </>
          )}
        </div>
      )}
      {asking === "terminate" && (
        <Confirm
          title="Terminate the session?"
          detail="Every process of it ends. Its log stays, and nothing more can be sent."
          action="Terminate"
          onYes={async () => {
            await client.terminate(id);
            say("Terminated");
          }}
          onClose={() => setAsking(undefined)}
        />
      )}
      {asking === "delete" && (
        <Confirm
          title="Delete the session?"
          detail="Its log, its files and its checkpoints are removed. Nobody can bring them back."
          action="Delete"
          typed={id}
          onYes={async () => {
            await client.sessions.delete(id);
            say("Deleted");
            go({ name: "sessions" });
          }}
          onClose={() => setAsking(undefined)}
        />
      )}
    </div>
  );
}

/** A session with the settings of another, its files at a checkpoint, and its agent's memory. */
async function forkSession(id: string, name: string, checkpoint: string): Promise<void> {
  try {
    const { agent } = await client.sessions.get(id);
    await client.sessions.create(
      name,
      { agent, fork: { session: id, checkpoint } },
      { idempotencyKey: createKey() },
    );
    say(`Forked from ${id}`);
    go({ name: "session", id: name, tab: "transcript" });
  } catch (error) {
    say(wordsOf(error), "bad");
  }
}
