/** The reference of the HTTP API, from the OpenAPI document. */
export function toHttpReference({ paths, components }) {
  const groups = new Map();
  for (const [path, methods] of Object.entries(paths))
    for (const [method, operation] of Object.entries(methods)) {
      const [tag = "other"] = operation.tags ?? [];
      const lines = toOperation(`${method.toUpperCase()} ${path}`, operation);
      groups.set(tag, [...(groups.get(tag) ?? [`## ${tag}`, ""]), ...lines]);
    }
  const schemas = Object.entries(components.schemas).flatMap(([name, schema]) => toSchema(name, schema));
  return [...[...groups.values()].flat(), "## Schemas", "", ...schemas].join("\n");
}

function toOperation(name, operation) {
  const { summary = "", description, parameters = [], requestBody, responses } = operation;
  const rows = parameters.map(
    ({ name, in: place, required, description: about = "", schema = {} }) =>
      `| \`${name}\` | ${place}${required ? ", required" : ""} | ${toType(schema)} | ${cell(about)} |`,
  );
  return [
    `### ${name}`,
    "",
    `${sentence(summary)}${description ? ` ${cell(description)}` : ""}`,
    "",
    ...(rows.length > 0 ? ["| parameter | in | type | |", "|---|---|---|---|", ...rows, ""] : []),
    ...(requestBody ? [`Body: ${toContent(requestBody.content)}`, ""] : []),
    "| status | | body |",
    "|---|---|---|",
    ...Object.entries(responses).map(
      ([status, { description: about = "", content }]) =>
        `| ${status} | ${Number(status) < 400 ? cell(about) : toCodes(about)} | ${toContent(content)} |`,
    ),
    "",
  ];
}

function toCodes(text) {
  return text.replaceAll(/\b[a-z]+(?:_[a-z]+)*\b/g, (code) => `\`${code}\``);
}

function toContent(content) {
  if (!content) return "";
  return Object.entries(content)
    .map(
      ([mime, { schema }]) =>
        `\`${mime}\`${schema && Object.keys(schema).length > 0 ? ` ${toType(schema)}` : ""}`,
    )
    .join(" or ");
}

function toSchema(name, schema) {
  const variants = schema.oneOf ?? schema.anyOf;
  if (variants)
    return [`### ${name}`, "", "One of:", "", ...variants.map((one) => `- ${toVariant(one)}`), ""];
  const required = new Set(schema.required ?? []);
  const rows = Object.entries(schema.properties ?? {}).map(
    ([field, of]) =>
      `| \`${field}\`${required.has(field) ? "" : "?"} | ${toType(of)} | ${cell(of.description ?? "")} |`,
  );
  return [`### ${name}`, "", "| field | type | |", "|---|---|---|", ...rows, ""];
}

/** The fields that tell a variant from the others, and those of its data. */
function toVariant(schema) {
  const { type, data, ...others } = schema.properties ?? {};
  const name = type?.const === undefined ? "an object" : `\`${type.const}\``;
  const fields = data?.properties ?? (data === undefined ? others : {});
  const required = new Set((data ?? schema).required ?? []);
  const list = Object.entries(fields).map(([field]) => `\`${field}\`${required.has(field) ? "" : "?"}`);
  return list.length === 0 ? name : `${name}: ${list.join(", ")}`;
}

function toType(schema = {}) {
  if (schema.$ref) return link(schema.$ref.split("/").at(-1));
  if (schema.const !== undefined) return `\`${JSON.stringify(schema.const)}\``;
  if (schema.enum)
    return schema.enum.length > 8 ? "a known word" : schema.enum.map((one) => `\`${one}\``).join(", ");
  const variants = schema.oneOf ?? schema.anyOf;
  if (variants) return [...new Set(variants.map(toType))].join(" or ");
  if (Array.isArray(schema.type)) return schema.type.join(" or ");
  if (schema.type === "array") return `list of ${toType(schema.items)}`;
  if (schema.type === "object" && schema.properties)
    return `object (${Object.keys(schema.properties)
      .map((name) => `\`${name}\``)
      .join(", ")})`;
  if (schema.type === "object" && schema.additionalProperties)
    return `object of ${toType(schema.additionalProperties)}`;
  return schema.type ?? "any";
}

function link(name) {
  return `[${name}](#${name.toLowerCase()})`;
}

function sentence(text) {
  return /[.?!]$/.test(text) ? cell(text) : `${cell(text)}.`;
}

function cell(text) {
  return text
    .replaceAll(/\s+/g, " ")
    .replaceAll("|", "\\|")
    .replaceAll(/[<>]/g, (letter) => `\\${letter}`);
}
