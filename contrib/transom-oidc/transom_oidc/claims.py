"""An ID token, checked; and the person whom its claims name."""

from typing import cast

from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet

from transom_hookspecs import JsonObject, TransomError

ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519"]
"""Those with a public key; with any other, who knows what everybody may know could sign."""

LEEWAY = 60
"""Seconds by which the two clocks may differ."""


class UnknownKey(TransomError):
    """The token is signed with a key that is not known, or not known yet."""

    def __init__(self) -> None:
        super().__init__("unauthenticated", "the OpenID provider's token is signed with a key that it does not show")


def id_claims(token: str, keys: KeySet, issuer: str, client: str, nonce: str, now: int) -> JsonObject:
    """The claims of an ID token that is signed by one of the keys, for this client and this sign-in.

    Parameters:
        now: the time in seconds (Unix).

    Raises:
        UnknownKey: none of the keys is the one that it names.
        TransomError: unauthenticated, for everything else that is not right.
    """
    expected = jwt.JWTClaimsRegistry(
        now=now,
        leeway=LEEWAY,
        iss={"essential": True, "value": issuer},
        sub={"essential": True},
        aud={"essential": True, "value": client},
        exp={"essential": True},
        iat={"essential": True},
        nonce={"essential": True, "value": nonce},
    )
    try:
        decoded = jwt.decode(token, keys, algorithms=ALGORITHMS)
        expected.validate(decoded.claims)
    except InvalidKeyIdError as error:
        raise UnknownKey from error
    except (JoseError, ValueError) as error:
        raise _bad() from error
    claims = decoded.claims
    several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
    if claims.get("azp", None if several else client) != client or not isinstance(claims["sub"], str) or not claims["sub"]:
        raise _bad()
    return cast(JsonObject, claims)


def person_of(claims: JsonObject, claim: str) -> str:
    """The person whom the claims name.

    Raises:
        TransomError: unauthenticated when they name nobody, or the provider does not vouch for the address.
    """
    person = claims.get(claim)
    if not isinstance(person, str) or not person:
        raise TransomError("unauthenticated", f"the OpenID provider says nothing under {claim!r}, which names the person here")
    if claim == "email":
        if claims.get("email_verified") is not True:
            raise TransomError("unauthenticated", "the OpenID provider does not say that the address (email) is verified")
        return person.lower()
    return person


def name_of(claims: JsonObject) -> str:
    """How the person is called; empty when the provider does not say it in one short line."""
    name = claims.get("name")
    return name if isinstance(name, str) and name.isprintable() and len(name) <= 200 else ""


def _bad() -> TransomError:
    return TransomError("unauthenticated", "the OpenID provider's token is not good for this sign-in; sign in again")
