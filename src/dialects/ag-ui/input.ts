import { z } from "zod";
import { SessionSpec, ToolSettings } from "../../contract/index.ts";

/** What a client sends to begin a run. Loose: later versions say more, and nobody is refused for that. */

const Part = z.looseObject({ type: z.string() });

export const InputMessage = z.looseObject({
  id: z.string().optional(),
  role: z.string(),
  content: z.union([z.string(), z.array(Part), z.null()]).optional(),
  toolCallId: z.string().optional(),
  error: z.unknown().optional(),
  metadata: z.unknown().optional(),
});
export type InputMessage = z.infer<typeof InputMessage>;

export const ResumeEntry = z.looseObject({
  interruptId: z.string().min(1),
  status: z.enum(["resolved", "cancelled"]),
  payload: z.unknown().optional(),
});
export type ResumeEntry = z.infer<typeof ResumeEntry>;

const InputTool = z.looseObject({
  name: z.string().min(1),
  description: z.string().nullish(),
  parameters: z.unknown().optional(),
});

/** It stands in URLs, headers and frames. */
export const RunId = z
  .string()
  .min(1)
  .max(256)
  // oxlint-disable-next-line no-control-regex
  .regex(/^[^\u0000-\u001f\u007f]+$/, "a run id has no control characters");

export const RunInput = z.looseObject({
  threadId: z.string().min(1),
  runId: RunId,
  protocolVersion: z.string().nullish(),
  parentRunId: z.string().nullish(),
  state: z.unknown().optional(),
  messages: z.array(InputMessage).default([]),
  tools: z.array(InputTool).nullish(),
  context: z.array(z.looseObject({ description: z.string().optional(), value: z.unknown() })).nullish(),
  forwardedProps: z.unknown().optional(),
  resume: z.array(ResumeEntry).nullish(),
});
export type RunInput = z.infer<typeof RunInput>;

/** What a client may say of the session that its first run creates: `forwardedProps.sluice`. */
const Wishes = SessionSpec.omit({ agent: true, fork: true }).partial();

export const ForwardedProps = z.looseObject({
  /** The agent's own id of the conversation, to be sure that it is this one that goes on. */
  sessionId: z.string().min(1).optional(),
  sluice: Wishes.optional(),
});
export type ForwardedProps = z.infer<typeof ForwardedProps>;

const CustomTools = ToolSettings.shape.custom.unwrap();

/** The client's own tools, as the session's; undefined where it brings none. */
export function toCustomTools({ tools }: RunInput): z.infer<typeof CustomTools> | undefined {
  if (!tools || tools.length === 0) return undefined;
  return CustomTools.parse(
    tools.map(({ name, description, parameters }) => ({
      name,
      description: description ?? "",
      inputSchema: parameters ?? { type: "object" },
    })),
  );
}
