import { toFile } from "@anthropic-ai/sdk";
import { expect } from "vitest";
import { ofType, type SessionWish } from "../session-bench.ts";
import { ASKING, WEATHER } from "../toolsets.ts";
import { type Actor, GATE } from "./step-actor.ts";

/** Between any two of the steps the server may die. */
export interface Scenario {
  readonly name: string;
  readonly wish?: SessionWish;
  /** The agent calls a host through the server, so a kill of the server cuts the call. */
  readonly isOnline?: boolean;
  readonly steps: readonly ((actor: Actor) => Promise<unknown>)[];
}

const confirm = (tool_use_id: string | undefined, result: "allow" | "deny") => ({
  type: "user.tool_confirmation",
  tool_use_id,
  result,
  ...(result === "deny" && { deny_message: "not today" }),
});
const content = [{ type: "text", text: "far away" }];

/** The step that waits for a question and the step that answers it. */
const asked = async (actor: Actor): Promise<void> => {
  actor.held["asked"] = await actor.asked();
};
const answer = (result: "allow" | "deny") => (actor: Actor) =>
  actor.send(confirm(actor.held["asked"], result));
/** The session takes no more messages. */
const refused = (status: number) => (actor: Actor) =>
  expect(actor.say({ say: "more" })).rejects.toMatchObject({ status });

export function toScenarios(mcpUrl: string): readonly Scenario[] {
  return [
    {
      name: "G1: a plain turn, and another one",
      steps: [
        (actor) =>
          actor.say({ think: "hm" }, { say: "one" }, GATE, { say: "two" }, { usage: { input_tokens: 3 } }),
        (actor) => actor.until((events) => actor.said(events, "one")),
        (actor) => actor.openGate(),
        (actor) => actor.ended(),
        (actor) => actor.say({ say: "$history" }),
        (actor) => actor.ended(2),
      ],
    },
    {
      name: "G4: a tool that is asked for and allowed",
      wish: { tools: [ASKING] },
      steps: [
        (actor) => actor.say({ shell: "echo ran" }, { say: "done" }),
        asked,
        answer("allow"),
        (actor) => actor.ended(),
      ],
    },
    {
      name: "G5: a tool that is asked for and denied",
      wish: { tools: [ASKING] },
      steps: [
        (actor) => actor.say({ shell: "echo ran" }, { say: "done" }),
        asked,
        answer("deny"),
        (actor) => actor.ended(),
      ],
    },
    {
      name: "G6: a tool of an MCP server that is asked for",
      isOnline: true,
      wish: {
        tools: [{ type: "mcp_toolset", mcp_server_name: "docs" }],
        mcp_servers: [{ type: "url", name: "docs", url: mcpUrl }],
      },
      steps: [
        (actor) => actor.say({ mcp: { server: "docs", tool: "find", input: { q: "x" } } }),
        asked,
        answer("allow"),
        (actor) => actor.ended(),
      ],
    },
    {
      name: "G7: a custom tool",
      wish: { tools: [WEATHER] },
      steps: [
        (actor) => actor.say({ custom: { name: "weather", input: { city: "Rome" } } }),
        asked,
        (actor) =>
          actor.send({ type: "user.custom_tool_result", custom_tool_use_id: actor.held["asked"], content }),
        (actor) => actor.ended(),
      ],
    },
    {
      name: "G8: a tool that the application runs once it is allowed",
      wish: { selfHosted: true, tools: [ASKING] },
      steps: [
        (actor) => actor.say({ shell: "hostname" }, { say: "done" }),
        asked,
        answer("allow"),
        (actor) =>
          actor.until((events) => events.filter(({ type }) => type === "session.status_idle").length > 1),
        (actor) => actor.send({ type: "user.tool_result", tool_use_id: actor.held["asked"], content }),
        (actor) => actor.ended(),
      ],
    },
    {
      name: "G12: an interrupt",
      steps: [
        (actor) => actor.say({ say: "begun" }, GATE, { say: "never" }),
        (actor) => actor.until((events) => ofType(events, "agent.tool_use").length > 0),
        (actor) => actor.send({ type: "user.interrupt" }),
        (actor) => actor.ended(),
        (actor) => actor.say({ say: "again" }),
        (actor) => actor.ended(2),
      ],
    },
    {
      name: "G15: a message while somebody is asked",
      wish: { tools: [ASKING] },
      steps: [
        (actor) => actor.say({ shell: "echo ran" }),
        asked,
        (actor) => actor.say({ say: "second" }),
        answer("allow"),
        (actor) => actor.ended(2),
      ],
    },
    {
      name: "D14: messages while it runs",
      steps: [
        (actor) => actor.say(GATE, { say: "first" }),
        (actor) => actor.until((events) => ofType(events, "agent.tool_use").length > 0),
        (actor) => actor.say({ say: "second" }),
        (actor) => actor.say({ say: "third" }),
        (actor) => actor.openGate(),
        (actor) => actor.ended(3),
      ],
    },
    {
      name: "D7: a system message",
      steps: [
        (actor) =>
          actor.send(
            { type: "user.message", content: [{ type: "text", text: '#script [{"say":"one"}]' }] },
            { type: "system.message", content: [{ type: "text", text: "be brief" }] },
          ),
        (actor) => actor.ended(),
        (actor) => actor.say({ say: "two" }),
        (actor) => actor.ended(2),
      ],
    },
    {
      name: "H1: a retry that helps",
      steps: [
        (actor) => actor.say({ say: "one" }, { fail: { kind: "overloaded", times: 3 } }, { say: "two" }),
        (actor) => actor.until((events) => ofType(events, "session.status_rescheduled").length > 0),
        (actor) => actor.until((events) => ofType(events, "session.status_rescheduled").length > 2),
        (actor) => actor.ended(),
      ],
    },
    {
      name: "H2: retries that do not help",
      steps: [
        (actor) => actor.say({ fail: { kind: "rate_limited", times: 99 } }),
        (actor) => actor.until((events) => ofType(events, "session.status_rescheduled").length > 0),
        (actor) => actor.ended(),
        (actor) => actor.say({ say: "fresh" }),
        (actor) => actor.ended(2),
      ],
    },
    {
      name: "H3: an end",
      steps: [
        (actor) => actor.say({ say: "one" }, { fail: { kind: "terminal" } }),
        (actor) => actor.ended(),
        refused(409),
      ],
    },
    {
      name: "I1, C7: updates and the archive",
      steps: [
        (actor) => actor.beta.sessions.update(actor.id, { title: "renamed" }),
        (actor) => actor.beta.sessions.update(actor.id, { metadata: { a: "b" } }),
        (actor) => actor.say({ say: "one" }),
        (actor) => actor.ended(),
        (actor) => actor.beta.sessions.archive(actor.id),
        refused(400),
      ],
    },
    {
      name: "I6: the deletion",
      steps: [
        (actor) => actor.say({ say: "one" }),
        (actor) => actor.ended(),
        (actor) => actor.beta.sessions.delete(actor.id),
      ],
    },
    {
      name: "J2, D3: files",
      steps: [
        async (actor) => {
          const file = await toFile(Buffer.from("the words"), "words.txt");
          actor.held["file"] = (await actor.beta.files.upload({ file })).id;
        },
        (actor) => {
          const resource = {
            type: "file",
            file_id: actor.held["file"] ?? "",
            mount_path: "/workspace/in.txt",
          };
          return actor.beta.sessions.resources.add(actor.id, resource as never);
        },
        (actor) => actor.say({ read: "in.txt" }, { shell: "cp in.txt /mnt/session/outputs/out.txt" }),
        (actor) => actor.ended(),
        (actor) =>
          actor.send({
            type: "user.message",
            content: [
              { type: "text", text: '#script [{"say":"read"}]' },
              { type: "document", source: { type: "file", file_id: actor.held["file"] }, title: "input" },
            ],
          }),
        (actor) => actor.ended(2),
      ],
    },
  ];
}
