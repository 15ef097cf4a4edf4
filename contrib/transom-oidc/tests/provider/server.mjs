// A real OpenID provider on a free port of this machine: prints its issuer, and lets in whoever names herself.
// Arguments: the redirect URI of its one client, and the client's secret.
import { createServer } from "node:http";
import Provider from "oidc-provider";

const [redirectUri, secret] = process.argv.slice(2);
const server = createServer();
server.listen(0, "127.0.0.1", () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: [{ client_id: "transom", client_secret: secret, redirect_uris: [redirectUri] }],
    claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["name", "preferred_username"] },
    pkce: { required: () => true },
    findAccount: (_, sub) => ({
      accountId: sub,
      claims: () => ({
        sub,
        name: `The ${sub}`,
        preferred_username: sub,
        email: `${sub}@Example.com`,
        email_verified: sub !== "mallory",
      }),
    }),
  });
  server.on("request", provider.callback());
  console.log(issuer);
});
process.stdin.resume().on("end", () => process.exit(0)); // it ends with its parent
