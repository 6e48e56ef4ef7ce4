import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { say } from "../core/announce.ts";
import { client, may, wordsOf } from "../core/api.ts";
import { toLine } from "../core/format.ts";
import { isFile, type SessionView } from "../core/session-view.ts";
import type { Moment } from "../log/protocol.ts";
import { Dialog, useAttempt } from "../parts/dialog.tsx";
import { Icon } from "../parts/icon.tsx";

/** The messages that wait for their turn, to be changed or withdrawn. In the past they are only shown. */
export function Queue({ view, queue }: { view: SessionView; queue: Moment["queue"] }): JSX.Element {
  const [edited, setEdited] = useState<Moment["queue"][number] | undefined>(undefined);
  const saving = useAttempt(() => setEdited(undefined));
  const can = may("control") && !isFile() && view.at.value === null;
  return (
    <ol class="queue">
      {queue.map((input, index) => (
        <li key={input.inputId}>
          <span>{toLine(input.text, 120)}</span>
          {can && (
            <span class="queue-buttons">
              <button aria-label={`Edit waiting message ${index + 1}`} onClick={() => setEdited(input)}>
                Edit
              </button>
              <button
                aria-label={`Withdraw waiting message ${index + 1}`}
                onClick={() => attempt(client.inputs.withdraw(view.id, input.inputId))}
              >
                <Icon name="close" />
              </button>
            </span>
          )}
        </li>
      ))}
      {edited && (
        <Dialog label="Edit the waiting message" onClose={() => setEdited(undefined)}>
          <form
            class="form"
            onSubmit={(event) => {
              event.preventDefault();
              const message = String(new FormData(event.currentTarget).get("message") ?? "");
              saving.attempt(() => client.inputs.replace(view.id, edited.inputId, { message }));
            }}
          >
            <label>
              Message
              <textarea name="message" rows={6} cols={60}>
                {edited.text}
              </textarea>
            </label>
            {saving.failure !== "" && (
              <p class="error" role="alert">
                {saving.failure}
              </p>
            )}
            <div class="buttons">
              <button type="button" onClick={() => setEdited(undefined)}>
                Cancel
              </button>
              <button class="primary" disabled={saving.busy}>
                Keep
              </button>
            </div>
          </form>
        </Dialog>
      )}
    </ol>
  );
}

function attempt(work: Promise<unknown>): void {
  work.catch((error: unknown) => say(wordsOf(error), "bad"));
}
