import type { EventDraft, Item } from "../../../src/contract/index.ts";
import type { StoredEventText } from "../../../src/dialects/port.ts";
import { EventSerialiser } from "../../../src/log/serialise.ts";
import { closeTurn } from "../../../src/sessions/turn/turn-end.ts";
import { Drafts } from "../../../src/sessions/fold/drafts.ts";
import { emptyFold } from "../../../src/sessions/fold/session-fold.ts";
import { type Reply, replyEvents } from "../../../src/sessions/actions/replies.ts";
import { startTurn } from "../../../src/sessions/turn/turn-start.ts";
import { waitingChange } from "../../../src/sessions/fold/waiting.ts";

/** The next step of a generated log; each number picks one of the possible targets. */
export type Happening =
  | {
      readonly kind: "say" | "think" | "call" | "ask" | "question" | "tool" | "early-tool";
      readonly inside: number;
    }
  | { readonly kind: "more" | "complete" | "return" | "answer"; readonly which: number }
  | { readonly kind: "file" | "plan" | "diff" | "custom" | "native" | "model" }
  | { readonly kind: "end"; readonly how: "completed" | "failed" | "interrupted" };

/** Generates a valid log by the engine's own rules: the end of a turn closes everything open. */
export function tellStory(happenings: readonly Happening[]): StoredEventText[] {
  const fold = emptyFold();
  const drafts = new Drafts(fold, 0);
  const open: Item[] = [];
  const called: { callId: string; itemId: string; parent?: string }[] = [];
  let count = 0;
  const add = (event: EventDraft): void => drafts.add(event);
  const agent = { source: "agent" } as const;
  add({ type: "session.started", source: "daemon", data: { metadata: { agent: "claude" } } });
  for (const happening of happenings) {
    count += 1;
    if (!fold.turn) {
      const content = [{ type: "text" as const, text: "go" }];
      const payload =
        count % 2 === 0 ? { payload: { "ag-ui": { runId: `run-${count}`, messageId: `m-${count}` } } } : {};
      add({
        type: "input.accepted",
        source: "daemon",
        data: { input_id: `inp_u${count}`, turn_id: `turn_${count}`, via: "test", content, ...payload },
      });
      startTurn(fold, drafts);
      open.length = 0;
      called.length = 0;
    }
    const parentOf = (inside: number): { parent_id?: string } => {
      const parent = called[inside % (called.length + 2)];
      return parent ? { parent_id: parent.itemId } : {};
    };
    switch (happening.kind) {
      case "say":
      case "think": {
        const text = { text: "" };
        const part =
          happening.kind === "say"
            ? { type: "text" as const, ...text }
            : { type: "reasoning" as const, ...text, visibility: "public" as const };
        const item: Item = {
          item_id: `itm_${count}`,
          kind: "message",
          role: "assistant",
          status: "in_progress",
          content: [part],
        };
        open.push(item);
        add({ type: "item.started", ...agent, ...parentOf(happening.inside), data: { item } });
        break;
      }
      case "call": {
        const item: Item = {
          item_id: `itm_${count}`,
          kind: "tool_call",
          role: "assistant",
          status: "in_progress",
          content: [{ type: "tool_call", name: "Task", arguments: "", call_id: `call_${count}` }],
        };
        open.push(item);
        add({ type: "item.started", ...agent, ...parentOf(happening.inside), data: { item } });
        break;
      }
      case "more": {
        const item = open[happening.which % Math.max(1, open.length)];
        if (item)
          add({
            type: "item.delta",
            ...agent,
            data: { item_id: item.item_id, delta: item.kind === "tool_call" ? " " : `w${count}` },
          });
        break;
      }
      case "complete": {
        const [item] = open.splice(happening.which % Math.max(1, open.length), 1);
        if (!item) break;
        const text = fold.turn?.open[item.item_id]?.text ?? "";
        const [part] = item.content;
        const whole =
          part?.type === "tool_call" ? { ...part, arguments: `${text}{"name":"x"}` } : { ...part, text };
        add({
          type: "item.completed",
          ...agent,
          data: { item: { ...item, status: "completed", content: [whole as never] } },
        });
        if (part?.type === "tool_call") called.push({ callId: part.call_id, itemId: item.item_id });
        break;
      }
      case "return": {
        const [call] = called.splice(happening.which % Math.max(1, called.length), 1);
        if (!call || !fold.turn?.calls[call.callId]) break;
        const item: Item = {
          item_id: `itm_${count}`,
          parent_id: call.itemId,
          kind: "tool_result",
          role: "tool",
          status: "in_progress",
          content: [],
        };
        add({ type: "item.started", ...agent, data: { item } });
        const status = count % 3 === 0 ? "failed" : "completed";
        add({
          type: "item.completed",
          ...agent,
          data: {
            item: {
              ...item,
              status,
              content: [{ type: "tool_result", call_id: call.callId, output: "out" }],
            },
          },
        });
        break;
      }
      case "ask": {
        const call = called[happening.inside % Math.max(1, called.length)];
        const metadata = call ? { call_id: call.callId, input: {} } : {};
        add({
          type: "permission.requested",
          ...agent,
          data: { permission_id: `perm_${count}`, action: "Bash", status: "requested", metadata },
        });
        break;
      }
      case "question":
        add({
          type: "question.requested",
          ...agent,
          ...parentOf(happening.inside),
          data: { question_id: `ques_${count}`, prompt: "which?", options: ["a"], status: "requested" },
        });
        break;
      case "tool":
      case "early-tool": {
        const call =
          happening.kind === "tool" ? called[happening.inside % Math.max(1, called.length)] : undefined;
        const known = call ? { call_id: call.callId } : {};
        add({
          type: "tool.requested",
          source: "daemon",
          data: { request_id: `treq_${count}`, name: "Task", input: { a: 1 }, ...known },
        });
        break;
      }
      case "answer": {
        const pending = fold.turn?.pending[happening.which % Math.max(1, fold.turn.pending.length)];
        if (!pending) break;
        if (count % 2 === 0)
          add({
            type: "custom",
            source: "daemon",
            data: { name: "ag-ui.run", value: { runId: `run-${count}` } },
          });
        const reply: Reply =
          pending.kind === "permission"
            ? { kind: "permission", reply: "once" }
            : pending.kind === "question"
              ? { kind: "question", answers: [["a"]] }
              : ({
                  kind: "tool",
                  output: "done",
                  ...(count % 2 === 0
                    ? { payload: { "ag-ui": { runId: `run-${count}`, messageId: `m-${count}` } } }
                    : {}),
                } as const);
        drafts.addAll(replyEvents(fold, pending.id, reply));
        break;
      }
      case "file":
        add({
          type: "file.changed",
          source: "daemon",
          data: { type: "create", path: "/workspace/f", timestamp: count },
        });
        break;
      case "plan":
        add({ type: "plan.updated", ...agent, data: { entries: [] } });
        break;
      case "diff":
        add({ type: "workspace.diffed", source: "daemon", data: { path: ".", diff: "d" } });
        break;
      case "custom":
        add({ type: "custom", source: "daemon", data: { name: "code_mode:console", value: null } });
        break;
      case "native":
        add({
          type: "session.updated",
          ...agent,
          native_session_id: `native-${count}`,
          data: { native_session_id: `native-${count}` },
        });
        break;
      case "model":
        add({
          type: "model.ended",
          ...agent,
          data: { request_id: `mreq_${count}`, model: "m", usage: { input_tokens: 1 } },
        });
        break;
      case "end":
        drafts.addAll(
          closeTurn(fold, {
            status: happening.how,
            stopReason: happening.how === "completed" ? "end_turn" : "interrupted",
          }),
        );
        break;
    }
    const waiting = waitingChange(fold);
    if (waiting) add(waiting);
  }
  drafts.addAll(closeTurn(fold, { status: "completed", stopReason: "end_turn" }));
  const { events } = drafts;
  const bodies = new EventSerialiser({ id: "thread-1", createdAt: 0 }).serialise(events, {
    first: 1,
    time: 1000,
  });
  return events.map(({ type }, index) => ({ sequence: index + 1, type, body: bodies[index] ?? "" }));
}
